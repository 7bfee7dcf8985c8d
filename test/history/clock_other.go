//go:build !linux

package history

import "time"

// machine is the wall clock where there is no raw call for the monotonic one: do not
// step it during a run.
func machine() int64 { return time.Now().UnixNano() }
