package redistest_test

import (
	"crypto/x509"
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

func TestATLSServerIsVerifiedAndSpeaksNothingElse(t *testing.T) {
	t.Parallel()
	s, other := redistest.StartTLS(t), redistest.StartTLS(t)
	if err := s.Client(t, oneTry).Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	wrong := s.Client(t, oneTry, func(o *redis.Options) { o.TLSConfig = other.TLSConfig() })
	err := wrong.Ping(t.Context()).Err()
	if unknown := (x509.UnknownAuthorityError{}); !errors.As(err, &unknown) {
		t.Errorf("with another CA: %v", err)
	}
	plain := s.Server.Client(t, oneTry)
	if err := plain.Ping(t.Context()).Err(); err == nil {
		t.Error("PING in plain text was answered")
	}
}

func TestATLSServerComesBackWithTheSameCertificate(t *testing.T) {
	t.Parallel()
	s := redistest.StartTLS(t, "--appendonly", "yes", "--appendfsync", "always")
	put(t, s.Client(t), "k")
	s.Restart(t)
	has(t, s.Client(t, oneTry), "k")
}

func as(name, password string) func(*redis.Options) {
	return func(o *redis.Options) { o.Username, o.Password = name, password }
}

func TestAnACLUserMayDoWhatItsRulesAllow(t *testing.T) {
	t.Parallel()
	plain, tls := redistest.Start(t), redistest.StartTLS(t)
	closed := redistest.Start(t, "--requirepass", "secret")
	for name, tc := range map[string]struct {
		server *redistest.Server
		client func(testing.TB, ...func(*redis.Options)) *redis.Client
	}{
		"plain":    {plain, plain.Client},
		"TLS":      {tls.Server, tls.Client},
		"password": {closed, closed.Client},
	} {
		t.Run(name, func(t *testing.T) {
			tc.server.ACLUser(t, "worker", "pass", "~lock:*", "+get", "+set")
			c := tc.client(t, oneTry, as("worker", "pass"))
			if err := c.Set(t.Context(), "lock:a", "v", 0).Err(); err != nil {
				t.Error(err)
			}
			for what, err := range map[string]error{
				"a command": c.Del(t.Context(), "lock:a").Err(),
				"a key":     c.Get(t.Context(), "other").Err(),
				"a channel": c.Publish(t.Context(), "lock:a", "v").Err(),
			} {
				if err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
					t.Errorf("%s that is not allowed: %v", what, err)
				}
			}
			tc.server.ACLUser(t, "worker", "new", "+ping")
			if err := tc.client(t, oneTry, as("worker", "pass")).Ping(t.Context()).Err(); err == nil {
				t.Error("the old password is still good")
			}
			err := tc.client(t, oneTry, as("worker", "new")).Get(t.Context(), "lock:a").Err()
			if err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
				t.Errorf("the old rules still hold: %v", err)
			}
		})
	}
}

func TestAnACLUserWithABadRuleFailsTheTest(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	got := failsWith(t, func(tb testing.TB) { s.ACLUser(tb, "worker", "pass", "+no-such-command") })
	if !strings.Contains(got, "no-such-command") {
		t.Errorf("failed with %q", got)
	}
}
