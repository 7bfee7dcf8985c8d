package redistest

import "testing"

// ACLUser makes name a user with this password and these ACL rules and nothing
// else, whatever the user was allowed before: "~lock:*", "+get", and "&*" for
// pub/sub channels, which are not allowed by themselves. Like all that is set at
// run time, the user is gone after a Restart.
func (s *Server) ACLUser(tb testing.TB, name, password string, rules ...string) {
	tb.Helper()
	args := []any{"ACL", "SETUSER", name, "reset", "on", ">" + password}
	for _, rule := range rules {
		args = append(args, rule)
	}
	s.must(tb, args...)
}
