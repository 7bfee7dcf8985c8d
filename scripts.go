package redislock

import (
	"embed"

	"github.com/go-lynx/lynx-redis-lock/internal/script"
)

//go:embed scripts/*.lua
var scriptFiles embed.FS

// The scripts, each in its file, whose header has keys, arguments and every reply.
var (
	acquireScript   = scriptOf("acquire").Short()
	reenterScript   = scriptOf("reenter")
	releaseScript   = scriptOf("release").Short()
	leaveScript     = scriptOf("leave")
	handoverScript  = scriptOf("handover").Short()
	wakeScript      = scriptOf("wake")
	unlockScript    = scriptOf("unlock")
	renewScript     = scriptOf("renew")
	renewManyScript = scriptOf("renew_many")
	touchScript     = scriptOf("touch")
	touchManyScript = scriptOf("touch_many")
	statusScript    = scriptOf("status")
)

func scriptOf(name string) *script.Script {
	source, err := script.Source(scriptFiles, "scripts/"+name)
	if err != nil {
		panic(err) // it is part of this package
	}
	return script.New(name, source)
}
