package redislock

import "github.com/go-lynx/lynx/log"

func logWarn(format string, args ...any)  { log.Warnf(format, args...) }
func logError(format string, args ...any) { log.Errorf(format, args...) }

type hostSource struct{}

func (hostSource) manager() (*manager, error)   { return nil, ErrRedisClientNotFound }
func (hostSource) replaced(m *manager) *manager { return m }
