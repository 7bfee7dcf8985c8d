package redislock_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-lynx/lynx/plugins"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

// Programs written against the published version and against the contract compile:
// each name with its type.
var (
	_ func(code, lang string) string                                                                                = redislock.GetErrorMessage
	_ func() map[string]int64                                                                                       = redislock.GetStats
	_ func(prometheus.Registerer)                                                                                   = redislock.InitMetrics
	_ func(error, string) bool                                                                                      = redislock.IsLockError
	_ func(context.Context, string, time.Duration, func() error) error                                              = redislock.Lock
	_ func(context.Context, string, redislock.LockOptions, func() error) error                                      = redislock.LockWithOptions
	_ func(context.Context, string, time.Duration, func() error, redislock.RetryStrategy) error                     = redislock.LockWithRetry
	_ func(context.Context, string, time.Duration, func(int64) error) error                                         = redislock.LockWithToken
	_ func(redislock.LockCallback)                                                                                  = redislock.SetCallback
	_ func(context.Context) error                                                                                   = redislock.Shutdown
	_ func(ctx context.Context, key, value string) error                                                            = redislock.UnlockByValue
	_ func(string) error                                                                                            = redislock.ValidateKey
	_ func() redislock.Provider                                                                                     = redislock.GetProvider
	_ func(context.Context, string, redislock.LockOptions) (*redislock.RedisLock, error)                            = redislock.NewLock
	_ func(redis.UniversalClient) redislock.Provider                                                                = redislock.NewProvider
	_ func(context.Context, string, redislock.LockOptions, func(context.Context, *redislock.RedisLock) error) error = redislock.LockContext
	_ func(string) string                                                                                           = redislock.HashTag
	_ func() *redislock.Plugin                                                                                      = redislock.NewPlugin

	_ func(*redislock.LockOptions) error   = (*redislock.LockOptions).Validate
	_ func(*redislock.RetryStrategy) error = (*redislock.RetryStrategy).Validate

	_ func(*redislock.RedisLock, context.Context) error                                 = (*redislock.RedisLock).Acquire
	_ func(*redislock.RedisLock, context.Context, redislock.RetryStrategy) error        = (*redislock.RedisLock).AcquireWithRetry
	_ func(*redislock.RedisLock, context.Context) error                                 = (*redislock.RedisLock).AcquireWait
	_ func(*redislock.RedisLock, redislock.LockOptions)                                 = (*redislock.RedisLock).EnableAutoRenew
	_ func(*redislock.RedisLock, context.Context) error                                 = (*redislock.RedisLock).Release
	_ func(*redislock.RedisLock, context.Context, time.Duration) error                  = (*redislock.RedisLock).Renew
	_ func(*redislock.RedisLock, context.Context) (bool, error)                         = (*redislock.RedisLock).IsLocked
	_ func(*redislock.RedisLock, context.Context) (time.Duration, error)                = (*redislock.RedisLock).TTL
	_ func(*redislock.RedisLock) string                                                 = (*redislock.RedisLock).GetKey
	_ func(*redislock.RedisLock) int64                                                  = (*redislock.RedisLock).GetToken
	_ func(*redislock.RedisLock) string                                                 = (*redislock.RedisLock).GetValue
	_ func(*redislock.RedisLock) time.Duration                                          = (*redislock.RedisLock).GetExpiration
	_ func(*redislock.RedisLock) time.Time                                              = (*redislock.RedisLock).GetAcquiredAt
	_ func(*redislock.RedisLock) time.Time                                              = (*redislock.RedisLock).GetExpiresAt
	_ func(*redislock.RedisLock) time.Duration                                          = (*redislock.RedisLock).GetRemainingTime
	_ func(*redislock.RedisLock) (time.Duration, bool)                                  = (*redislock.RedisLock).GetStatus
	_ func(*redislock.RedisLock) bool                                                   = (*redislock.RedisLock).IsExpired
	_ func(*redislock.RedisLock) <-chan struct{}                                        = (*redislock.RedisLock).Done
	_ func(*redislock.RedisLock) error                                                  = (*redislock.RedisLock).Err
	_ func(*redislock.RedisLock, context.Context) (context.Context, context.CancelFunc) = (*redislock.RedisLock).Context

	_ interface {
		error
		Unwrap() error
		Is(error) bool
	} = (*redislock.LockError)(nil)
	_ error                   = (*redislock.LostError)(nil)
	_ redislock.LockCallback  = redislock.NoOpCallback{}
	_ redislock.LockCallback  = &redislock.NoOpCallback{}
	_ plugins.Plugin          = (*redislock.Plugin)(nil)
	_ string                  = string(redislock.LossReason(""))
	_ redislock.TokenMode     = redislock.TokenCounter
	_ int                     = int(redislock.TokenClock)
	_ redislock.Provider      = mock{}
	_ redislock.Provider      = redislock.ContextProvider(nil)
	_ redislock.RetryStrategy = redislock.DefaultRetryStrategy
	_ redislock.RenewalConfig = redislock.DefaultRenewalConfig
	_ redislock.LockOptions   = redislock.DefaultLockOptions
)

// mock is a Provider as users write it: with five methods, exactly those.
type mock struct{}

func (mock) NewLock(context.Context, string, redislock.LockOptions) (*redislock.RedisLock, error) {
	return nil, nil //nolint:nilnil // only the shape matters
}
func (mock) Lock(context.Context, string, time.Duration, func() error) error { return nil }
func (mock) LockWithOptions(context.Context, string, redislock.LockOptions, func() error) error {
	return nil
}

func (mock) LockWithToken(context.Context, string, time.Duration, func(int64) error) error {
	return nil
}
func (mock) UnlockByValue(context.Context, string, string) error { return nil }

// The interfaces are the same the other way round, so they have no method more.
var (
	_ interface {
		NewLock(ctx context.Context, key string, options redislock.LockOptions) (*redislock.RedisLock, error)
		Lock(ctx context.Context, key string, expiration time.Duration, fn func() error) error
		LockWithOptions(ctx context.Context, key string, options redislock.LockOptions, fn func() error) error
		LockWithToken(ctx context.Context, key string, expiration time.Duration, fn func(token int64) error) error
		UnlockByValue(ctx context.Context, key, value string) error
	} = redislock.Provider(nil)
	_ redislock.ContextProvider = interface {
		redislock.Provider
		LockContext(ctx context.Context, key string, options redislock.LockOptions, fn func(ctx context.Context, lock *redislock.RedisLock) error) error
	}(nil)
	_ redislock.LockCallback = interface {
		OnLockAcquired(key string, duration time.Duration)
		OnLockReleased(key string, duration time.Duration)
		OnLockRenewed(key string, duration time.Duration)
		OnLockRenewalFailed(key string, error error)
		OnLockAcquireFailed(key string, error error)
	}(nil)
)

// The structs' fields, by name and type. A conversion from a struct type would
// also pin their order, which the contract lists but no program depends on.
var (
	_ = redislock.LockOptions{
		Expiration: time.Duration(0), RetryStrategy: redislock.RetryStrategy{}, RenewalEnabled: false, RenewalThreshold: float64(0),
		WorkerPoolSize: int(0), RenewalConfig: redislock.RenewalConfig{}, ScriptCallTimeout: time.Duration(0), TokenTTL: time.Duration(0),
		WaitTimeout: time.Duration(0), FenceKey: string(""), TokenMode: redislock.TokenMode(0),
	}
	_ = redislock.RetryStrategy{MaxRetries: int(0), RetryDelay: time.Duration(0), MaxDelay: time.Duration(0)}
	_ = redislock.RenewalConfig{
		MaxRetries: int(0), BaseDelay: time.Duration(0), MaxDelay: time.Duration(0), CheckInterval: time.Duration(0), CallTimeout: time.Duration(0),
	}
	_ = redislock.LockError{Code: string(""), Message: string(""), Err: error(nil)}
	_ = redislock.LostError{Key: string(""), Token: int64(0), Reason: redislock.LossReason(""), At: time.Time{}}
)

// classes are the error codes and their sentinels.
var classes = map[string]*redislock.LockError{
	"LOCK_NOT_HELD": redislock.ErrLockNotHeld, "LOCK_ACQUIRE_FAILED": redislock.ErrLockAcquireFailed,
	"LOCK_ACQUIRE_TIMEOUT": redislock.ErrLockAcquireTimeout, "LOCK_ACQUIRE_CONFLICT": redislock.ErrLockAcquireConflict,
	"REDIS_CLIENT_NOT_FOUND": redislock.ErrRedisClientNotFound, "MAX_RETRIES_EXCEEDED": redislock.ErrMaxRetriesExceeded,
	"LOCK_FN_REQUIRED": redislock.ErrLockFnRequired, "LOCK_RENEWAL_FAILED": redislock.ErrLockRenewalFailed,
	"RENEWAL_SERVICE_STOPPED": redislock.ErrRenewalServiceStopped, "INVALID_OPTIONS": redislock.ErrInvalidOptions,
	"LOCK_LOST": redislock.ErrLockLost,
}

func TestConstantsAndDefaultsAreThoseOfTheContract(t *testing.T) {
	codes := []string{
		redislock.ErrCodeLockNotHeld, redislock.ErrCodeLockAcquireFailed, redislock.ErrCodeLockAcquireTimeout,
		redislock.ErrCodeLockAcquireConflict, redislock.ErrCodeRedisClientNotFound, redislock.ErrCodeMaxRetriesExceeded,
		redislock.ErrCodeLockFnRequired, redislock.ErrCodeLockRenewalFailed, redislock.ErrCodeRenewalServiceStopped,
		redislock.ErrCodeInvalidOptions, redislock.ErrCodeLockLost,
	}
	want := []string{
		"LOCK_NOT_HELD", "LOCK_ACQUIRE_FAILED", "LOCK_ACQUIRE_TIMEOUT", "LOCK_ACQUIRE_CONFLICT", "REDIS_CLIENT_NOT_FOUND",
		"MAX_RETRIES_EXCEEDED", "LOCK_FN_REQUIRED", "LOCK_RENEWAL_FAILED", "RENEWAL_SERVICE_STOPPED", "INVALID_OPTIONS", "LOCK_LOST",
	}
	if !slices.Equal(codes, want) {
		t.Errorf("codes %q, want %q", codes, want)
	}
	const ms = time.Millisecond
	equal(t, "MaxLockKeyLength", redislock.MaxLockKeyLength, 255)
	equal(t, "TokenCounter", redislock.TokenCounter, redislock.TokenMode(0))
	equal(t, "TokenClock", redislock.TokenClock, redislock.TokenMode(1))
	equal(t, "DefaultRetryStrategy", redislock.DefaultRetryStrategy, redislock.RetryStrategy{MaxRetries: 3, RetryDelay: 100 * ms})
	equal(t, "DefaultRenewalConfig", redislock.DefaultRenewalConfig, redislock.RenewalConfig{
		MaxRetries: 4, BaseDelay: 100 * ms, MaxDelay: 800 * ms, CheckInterval: 300 * ms, CallTimeout: 600 * ms,
	})
	equal(t, "DefaultLockOptions", redislock.DefaultLockOptions, redislock.LockOptions{
		Expiration: 30 * time.Second, RetryStrategy: redislock.RetryStrategy{MaxRetries: 3, RetryDelay: 100 * ms},
		RenewalEnabled: true, RenewalThreshold: 0.3, WorkerPoolSize: 50,
		RenewalConfig: redislock.RenewalConfig{
			MaxRetries: 4, BaseDelay: 100 * ms, MaxDelay: 800 * ms, CheckInterval: 300 * ms, CallTimeout: 600 * ms,
		},
		ScriptCallTimeout: 600 * ms, TokenTTL: 7 * 24 * time.Hour,
	})
	equal(t, "HashTag", redislock.HashTag("orders:42"), "{lynx:lock:orders:42}")
}

func TestEveryCodeHasItsSentinelAndItsTexts(t *testing.T) {
	for code, sentinel := range classes {
		equal(t, "the sentinel's Code", sentinel.Code, code)
		en, zh := redislock.GetErrorMessage(code, "en"), redislock.GetErrorMessage(code, "zh")
		for _, text := range []string{en, zh, sentinel.Error(), sentinel.Message} {
			if text == "" || text == code {
				t.Errorf("code %s has the text %q", code, text)
			}
		}
		if en == zh || !strings.ContainsFunc(zh, func(r rune) bool { return r >= 0x4e00 && r <= 0x9fff }) {
			t.Errorf("code %s: the text for zh is %q", code, zh)
		}
		equal(t, "an unknown language", redislock.GetErrorMessage(code, "fr"), en)
		equal(t, "no language", redislock.GetErrorMessage(code, ""), en)
	}
	equal(t, "an unknown code", redislock.GetErrorMessage("NO_SUCH_CODE", "zh"), "NO_SUCH_CODE")
	equal(t, "no code", redislock.GetErrorMessage("", "en"), "")
}

func TestEverySentinelIsFoundHoweverItWasWrapped(t *testing.T) {
	cause := errors.New("the cause")
	for code, sentinel := range classes {
		own := &redislock.LockError{Code: code, Message: "worded anew", Err: cause}
		for _, err := range []error{
			sentinel, own, errors.Join(cause, own),
			&redislock.LockError{Code: "OTHER", Err: own}, errors.Join(&redislock.LockError{Code: "OTHER"}, sentinel),
		} {
			wantIs(t, err, sentinel)
			for other, stranger := range classes {
				if other != code {
					wantNot(t, err, stranger)
					equal(t, "IsLockError "+other, redislock.IsLockError(err, other), false)
				}
			}
		}
		wantIs(t, own, cause)
		if !strings.Contains(own.Error(), "worded anew") || !strings.Contains(own.Error(), "the cause") {
			t.Errorf("Error() is %q", own.Error())
		}
		var found *redislock.LockError
		if !errors.As(errors.Join(cause, own), &found) || found != own {
			t.Errorf("errors.As finds %v", found)
		}
	}
}

func TestProvidersImplementContextProvider(t *testing.T) {
	for name, provider := range map[string]redislock.Provider{
		"GetProvider": redislock.GetProvider(), "NewProvider": offline(t), "NewProvider without a client": redislock.NewProvider(nil),
	} {
		if _, ok := provider.(redislock.ContextProvider); !ok {
			t.Errorf("what %s returns is no ContextProvider", name)
		}
	}
}

func TestWithoutAHostThePackageFunctionsGiveErrRedisClientNotFound(t *testing.T) {
	ctx, fn := t.Context(), func() error { t.Error("fn has run"); return nil }
	_, newLock := redislock.NewLock(ctx, "k", options())
	_, provided := redislock.GetProvider().NewLock(ctx, "k", options())
	for name, err := range map[string]error{
		"NewLock": newLock, "GetProvider().NewLock": provided,
		"Lock":            redislock.Lock(ctx, "k", time.Minute, fn),
		"LockWithRetry":   redislock.LockWithRetry(ctx, "k", time.Minute, fn, redislock.RetryStrategy{}),
		"LockWithOptions": redislock.LockWithOptions(ctx, "k", options(), fn),
		"LockWithToken":   redislock.LockWithToken(ctx, "k", time.Minute, func(int64) error { return fn() }),
		"LockContext":     redislock.LockContext(ctx, "k", options(), func(context.Context, *redislock.RedisLock) error { return fn() }),
		"UnlockByValue":   redislock.UnlockByValue(ctx, "k", "value"),
	} {
		if !errors.Is(err, redislock.ErrRedisClientNotFound) {
			t.Errorf("%s: got %v, want ErrRedisClientNotFound", name, err)
		}
	}
	wantIs(t, redislock.Lock(ctx, "k", time.Minute, nil), redislock.ErrLockFnRequired)
	wantIs(t, redislock.LockWithRetry(ctx, "k", time.Minute, nil, redislock.RetryStrategy{}), redislock.ErrLockFnRequired)
	wantIs(t, redislock.LockWithRetry(ctx, "k", time.Minute, fn, redislock.RetryStrategy{MaxRetries: -1}), redislock.ErrInvalidOptions)
	wantIs(t, redislock.Lock(ctx, "", time.Minute, fn), redislock.ErrInvalidOptions)
}

// pinned is everything the package exports.
var pinned = strings.Fields(`
	ErrCodeLockNotHeld ErrCodeLockAcquireFailed ErrCodeLockAcquireTimeout ErrCodeLockAcquireConflict
	ErrCodeRedisClientNotFound ErrCodeMaxRetriesExceeded ErrCodeLockFnRequired ErrCodeLockRenewalFailed
	ErrCodeRenewalServiceStopped ErrCodeInvalidOptions ErrCodeLockLost MaxLockKeyLength
	ErrLockNotHeld ErrLockAcquireFailed ErrLockAcquireTimeout ErrLockAcquireConflict ErrRedisClientNotFound
	ErrMaxRetriesExceeded ErrLockFnRequired ErrLockRenewalFailed ErrRenewalServiceStopped ErrInvalidOptions ErrLockLost
	DefaultRetryStrategy DefaultRenewalConfig DefaultLockOptions
	GetErrorMessage GetStats InitMetrics IsLockError Lock LockWithOptions LockWithRetry LockWithToken LockContext
	SetCallback Shutdown UnlockByValue ValidateKey GetProvider NewProvider NewLock HashTag NewPlugin
	LockCallback LockCallback.OnLockAcquired LockCallback.OnLockReleased LockCallback.OnLockRenewed
	LockCallback.OnLockRenewalFailed LockCallback.OnLockAcquireFailed
	NoOpCallback NoOpCallback.OnLockAcquired NoOpCallback.OnLockReleased NoOpCallback.OnLockRenewed
	NoOpCallback.OnLockRenewalFailed NoOpCallback.OnLockAcquireFailed
	LockError LockError.Code LockError.Message LockError.Err LockError.Error LockError.Unwrap LockError.Is
	LostError LostError.Key LostError.Token LostError.Reason LostError.At LostError.Error LossReason
	LockOptions LockOptions.Expiration LockOptions.RetryStrategy LockOptions.RenewalEnabled LockOptions.RenewalThreshold
	LockOptions.WorkerPoolSize LockOptions.RenewalConfig LockOptions.ScriptCallTimeout LockOptions.TokenTTL
	LockOptions.WaitTimeout LockOptions.FenceKey LockOptions.TokenMode LockOptions.Validate
	RetryStrategy RetryStrategy.MaxRetries RetryStrategy.RetryDelay RetryStrategy.MaxDelay RetryStrategy.Validate
	RenewalConfig RenewalConfig.MaxRetries RenewalConfig.BaseDelay RenewalConfig.MaxDelay RenewalConfig.CheckInterval RenewalConfig.CallTimeout
	TokenMode TokenCounter TokenClock
	Provider Provider.NewLock Provider.Lock Provider.LockWithOptions Provider.LockWithToken Provider.UnlockByValue
	ContextProvider ContextProvider.Provider ContextProvider.LockContext
	RedisLock RedisLock.Acquire RedisLock.AcquireWithRetry RedisLock.AcquireWait RedisLock.EnableAutoRenew RedisLock.Release
	RedisLock.Renew RedisLock.IsLocked RedisLock.TTL RedisLock.GetKey RedisLock.GetToken RedisLock.GetValue RedisLock.GetExpiration
	RedisLock.GetAcquiredAt RedisLock.GetExpiresAt RedisLock.GetRemainingTime RedisLock.GetStatus RedisLock.IsExpired
	RedisLock.Done RedisLock.Err RedisLock.Context
	Plugin Plugin.BasePlugin Plugin.InitializeResources Plugin.StartupTasks Plugin.StartupTasksContext
	Plugin.CleanupTasks Plugin.CleanupTasksContext Plugin.CheckHealth Plugin.GetHealth
`) // the methods of Plugin are those the framework calls

func TestNothingElseIsExported(t *testing.T) {
	names, err := filepath.Glob("*.go")
	must(t, "listing the package", err)
	var files []*ast.File
	for _, name := range names {
		if !strings.HasSuffix(name, "_test.go") {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			must(t, "parsing "+name, err)
			files = append(files, file)
		}
	}
	var exported []string
	add := func(names ...string) {
		for _, name := range names {
			if !slices.ContainsFunc(strings.Split(name, "."), func(part string) bool { return !ast.IsExported(part) }) {
				exported = append(exported, name)
			}
		}
	}
	for _, file := range files {
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				add(receiver(d) + d.Name.Name)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					add(declared(spec)...)
				}
			}
		}
	}
	for _, name := range exported {
		if !slices.Contains(pinned, name) {
			t.Errorf("%s is exported and not in the contract", name)
		}
	}
	for _, name := range pinned {
		if !slices.Contains(exported, name) {
			t.Errorf("%s is in the contract and not exported", name)
		}
	}
}

// receiver is "Type." of a method, "" of a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	return typeName(d.Recv.List[0].Type) + "."
}

// typeName is the name of a type without its package, pointer and parameters.
func typeName(expr ast.Expr) string {
	switch e := expr.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// declared are the names of a declaration, with a type's fields and methods.
func declared(spec ast.Spec) (names []string) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range s.Names {
			names = append(names, name.Name)
		}
	case *ast.TypeSpec:
		names = append(names, s.Name.Name)
		var fields *ast.FieldList
		switch inner := s.Type.(type) {
		case *ast.StructType:
			fields = inner.Fields
		case *ast.InterfaceType:
			fields = inner.Methods
		}
		if fields == nil {
			return names
		}
		for _, field := range fields.List {
			for _, name := range field.Names {
				names = append(names, s.Name.Name+"."+name.Name)
			}
			if len(field.Names) == 0 { // embedded
				names = append(names, s.Name.Name+"."+typeName(field.Type))
			}
		}
	}
	return names
}
