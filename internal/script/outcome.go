package script

import (
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// outcome is what one send is known to have done.
type outcome int

const (
	answered outcome = iota // a reply, or an error that is an answer
	notRun                  // it did not run: it may be sent again freely
	unknown                 // it may have run, may be running, or may still arrive
)

// temporary are the error replies that Redis gives before a script's first
// write and that pass by themselves: the script changed nothing. OOM is not
// one of them, a full server is an answer.
var temporary = []string{
	"LOADING ", "TRYAGAIN ", "MOVED ", "ASK ", "CLUSTERDOWN ", "READONLY ", "MASTERDOWN ",
	"NOREPLICAS ", "BUSY ", "MISCONF ", "ERR max number of clients reached", "max number of clients reached",
}

// errUnwritten is in the error of a send that got no connection in its time.
var errUnwritten = errors.New("no connection to Redis")

// classify names what a send that ended in err is known to have done.
func classify(err error) outcome {
	if err == nil {
		return answered
	}
	var reply redis.Error
	switch {
	case errors.As(err, &reply):
		return classifyReply(reply.Error())
	case errors.Is(err, errUnwritten), errors.Is(err, redis.ErrClosed), errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return notRun
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return notRun
	}
	return unknown
}

// isReply says that an error is what Redis answered.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

func classifyReply(text string) outcome {
	for _, prefix := range temporary {
		if strings.HasPrefix(text, prefix) {
			return notRun
		}
	}
	// Redis 7 checks this while the script runs: it may have written already.
	if strings.Contains(text, "attempted to access a non local key") {
		return unknown
	}
	return answered
}

// forbidden says that an ACL stands against it: by a rule on the script itself, or on
// a command inside of it, which Redis 7.0 words in one way and later ones in another.
func forbidden(err error) bool {
	return err != nil && (redis.HasErrorPrefix(err, "NOPERM") || strings.Contains(err.Error(), "ACL failure in script") ||
		strings.Contains(err.Error(), "user executing the script can't"))
}

// noScript matches the prefix only: Valkey's text differs.
func noScript(err error) bool {
	return err != nil && redis.HasErrorPrefix(err, "NOSCRIPT")
}

// Refused says that Redis answered with an error: it can be reached, but not so.
func Refused(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && classifyReply(reply.Error()) == answered
}
