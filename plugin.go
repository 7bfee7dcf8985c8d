package redislock

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-lynx/lynx/log"
	"github.com/go-lynx/lynx/pkg/factory"
	"github.com/go-lynx/lynx/plugins"
	"github.com/redis/go-redis/v9"

	"github.com/go-lynx/lynx-redis-lock/internal/script"
)

const (
	pluginName        = "redis.distributed.lock"
	pluginVersion     = "v1.6.3"
	pluginDescription = "distributed lock on Redis for the lynx framework"
	// The prefix of redis.client: configuring Redis is all a user does, and both
	// plugins are prepared in one pass, where the dependency is looked up.
	confPrefix = "lynx.redis"
	// ignoredSection is what project templates write; there is nothing in it for us.
	ignoredSection = "redis-lock"

	clientResource   = "redis.client"
	providerResource = pluginName + ".provider"

	// plainStepTime bounds the steps of a framework that passes no context.
	plainStepTime = 4 * time.Second
	healthTime    = 2 * time.Second
)

// howTo is what every error about a missing client ends with.
const howTo = "configure lynx.redis (addrs and max_active_conns at least) for the redis.client plugin, " +
	"or use NewProvider with a client of your own"

func init() {
	factory.GlobalTypedFactory().RegisterPlugin(pluginName, confPrefix, func() plugins.Plugin { return NewPlugin() })
}

func logWarn(format string, args ...any)  { log.Warnf(format, args...) }
func logError(format string, args ...any) { log.Errorf(format, args...) }

// Plugin is the lock as a plugin of the Lynx framework, redis.distributed.lock. It
// depends on redis.client and publishes a Provider as the shared resources
// "redis.distributed.lock" and "redis.distributed.lock.provider".
type Plugin struct {
	*plugins.BasePlugin
	rt     plugins.Runtime
	source *pluginSource // of the current or last run
}

// NewPlugin makes the plugin, for hosts that build their plugin list in code.
// Importing the package registers it for all others.
func NewPlugin() *Plugin {
	p := &Plugin{BasePlugin: plugins.NewBasePlugin(
		plugins.GeneratePluginID("", pluginName, pluginVersion),
		pluginName, pluginDescription, pluginVersion, confPrefix, 0,
	)}
	p.AddDependency(plugins.Dependency{
		Name: clientResource, Type: plugins.DependencyTypeRequired, Required: true,
		Description: "the Redis client that keeps the locks",
	})
	return p
}

// InitializeResources keeps the runtime and looks at the configuration.
func (p *Plugin) InitializeResources(rt plugins.Runtime) error {
	p.rt = rt
	var sections map[string]json.RawMessage
	if conf := rt.GetConfig(); conf != nil && conf.Value("lynx").Scan(&sections) == nil {
		if section, ok := sections[ignoredSection]; ok && hasKeys(section) {
			log.Warnf("redis.distributed.lock reads nothing from lynx.%s: a lock's options are given where it is made", ignoredSection)
		}
	}
	return nil
}

func hasKeys(section json.RawMessage) bool {
	var keys map[string]json.RawMessage
	return json.Unmarshal(section, &keys) != nil || len(keys) > 0
}

// StartupTasks is StartupTasksContext for a framework that passes no context.
func (p *Plugin) StartupTasks() error {
	ctx, cancel := context.WithTimeout(context.Background(), plainStepTime)
	defer cancel()
	return p.StartupTasksContext(ctx)
}

// StartupTasksContext takes the client, loads the scripts and, when Redis answers,
// registers the metrics and publishes the provider.
func (p *Plugin) StartupTasksContext(ctx context.Context) error {
	host.forget(p.source) // of a start that has failed: nobody stops that
	client, err := clientFrom(p.rt)
	if err != nil {
		return err
	}
	m := newManager(client)
	if err := loadScripts(ctx, client); err != nil {
		return newError(ErrRedisClientNotFound, err, "Redis does not answer; %s", howTo)
	}
	if err := m.ping(ctx); err != nil {
		return newError(ErrRedisClientNotFound, err, "Redis cannot run the lock's scripts; %s", howTo)
	}
	InitMetrics(nil)
	p.source = &pluginSource{rt: p.rt, m: m, failed: func() bool { return p.Status(p) == plugins.StatusFailed }}
	for _, name := range []string{pluginName, providerResource} {
		if err := p.rt.RegisterSharedResource(name, provider{p.source}); err != nil {
			return fmt.Errorf("publishing the lock provider as %q: %w", name, err)
		}
	}
	host.started(p.source)
	return nil
}

// loadScripts fails only when Redis cannot be asked: where SCRIPT LOAD is refused
// (an ACL), the first call of each script brings its source along.
func loadScripts(ctx context.Context, client redis.UniversalClient) error {
	err := script.Load(ctx, client, acquireScript, reenterScript, releaseScript, leaveScript, handoverScript,
		renewScript, renewManyScript, touchScript, touchManyScript, statusScript, unlockScript, wakeScript)
	if script.Refused(err) {
		log.Warnf("redis.distributed.lock: the scripts are not loaded ahead: %v", err)
		return nil
	}
	return err
}

// CheckHealth makes one round trip, with a script that touches no lock.
func (p *Plugin) CheckHealth() error {
	if p.source == nil {
		return newError(ErrRedisClientNotFound, nil, "the plugin has not started; %s", howTo)
	}
	m, err := p.source.manager()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), healthTime)
	defer cancel()
	if err = m.ping(ctx); isClosed(err) {
		err = p.source.replaced(m).ping(ctx)
	}
	return err
}

// ping asks about a lock that cannot exist: its key is empty.
func (m *manager) ping(ctx context.Context) error {
	return m.runner.Run(ctx, script.Call{
		Script: statusScript, Keys: []string{HashTag("") + ownerSuffix}, Args: []string{""},
	}).Err
}

// GetHealth is the framework's report; the base plugin's calls a healthy plugin
// unhealthy.
func (p *Plugin) GetHealth() plugins.HealthReport {
	report := plugins.HealthReport{Status: "healthy", Timestamp: time.Now().Unix(), Details: map[string]any{}}
	if err := p.CheckHealth(); err != nil {
		report.Status, report.Message = "unhealthy", err.Error()
	}
	for name, n := range GetStats() {
		report.Details[name] = n
	}
	return report
}

// CleanupTasks is CleanupTasksContext for a framework that passes no context.
func (p *Plugin) CleanupTasks() error {
	ctx, cancel := context.WithTimeout(context.Background(), plainStepTime)
	defer cancel()
	return p.CleanupTasksContext(ctx)
}

// CleanupTasksContext waits for the holds of this plugin's client, see Shutdown.
// It ends before the framework's deadline, which closes the client at once.
func (p *Plugin) CleanupTasksContext(ctx context.Context) error {
	if p.source == nil {
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok {
		bounded, cancel := context.WithTimeout(ctx, time.Until(deadline)*4/5)
		defer cancel()
		ctx = bounded
	}
	left := p.source.stop(ctx)
	return drained(ctx, left)
}
