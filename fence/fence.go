// Package fence is the check at the protected resource: it refuses a holder of a
// lock that was paused for longer than its lease and writes afterwards.
//
// Whoever got the lock got a fencing token with it, larger than that of every holder
// before. The resource remembers the highest token it was written with and refuses
// smaller ones. The comparison and the write are one step, or the pause would fall
// between them: one script in Redis ([Redis]), one conditional statement in a
// database ([SQL]). No clock is read and nothing is locked for longer than the write.
//
// Every write follows one rule:
//
//   - a token larger than the highest applied one is applied and remembered;
//   - an equal one is applied as well, because a holder may write more than once and
//     its request may be sent again after a lost reply;
//   - a smaller one writes nothing: the error Is [ErrStale] and names both tokens.
//
// What is not promised:
//
//   - Order among the writes of one holder: they have the same token. A request that
//     arrives late can overwrite a later one of its own holder, until the next holder
//     has written.
//   - Safety before the first write: the resource learns of a new holder by its first
//     write, and takes the old holder's until then. A holder that must not be disturbed
//     while it only reads raises the token first (an update without columns, a script
//     without a body).
//   - Sense where tokens go back. The lock's own counter lives for TokenTTL after its
//     last use, and Redis can lose it; TokenCounter then starts at 1 again, and a
//     resource, which remembers its token for good, refuses the new holders. Use
//     TokenClock, or a FenceKey without a TTL, and read LIMITATIONS.md.
//   - Tokens of two locks say nothing about each other: one resource, one lock.
package fence

import (
	"errors"
	"fmt"
)

// Classes of errors, to compare with errors.Is. Any other error comes from Redis or
// from the database, is wrapped, and leaves it open whether the write was applied.
var (
	// ErrStale refuses a write with a token older than the highest applied one;
	// nothing was written. errors.As finds a *StaleError with both tokens.
	ErrStale = errors.New("stale token")
	// ErrAbsent says that there is no row to update; nothing was written.
	ErrAbsent = errors.New("no such row")
	// ErrInvalid refuses an argument before anything is sent; the message has the
	// value and the rule.
	ErrInvalid = errors.New("invalid argument")
)

// StaleError is a refused write: its holder's lease has ended, and a later holder has
// written since.
type StaleError struct {
	Resource string // the Redis key, or the table and the key of the row
	Token    int64  // the one that was refused
	Applied  int64  // the highest applied one
}

// Error names the resource and both tokens.
func (e *StaleError) Error() string {
	return fmt.Sprintf("fence: stale token %d for %s: token %d was applied already", e.Token, e.Resource, e.Applied)
}

// Unwrap makes it an ErrStale.
func (e *StaleError) Unwrap() error { return ErrStale }

func invalid(format string, args ...any) error {
	return fmt.Errorf("fence: %w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// checkToken refuses what no lock gives: 0 means that a hold has no token.
func checkToken(token int64) error {
	if token <= 0 {
		return invalid("token %d must be larger than 0", token)
	}
	return nil
}
