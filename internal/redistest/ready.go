package redistest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

const (
	// startTimeout is far above the 14 ms a start takes: it only has to end
	// the wait for a server that will never answer, on a busy machine too.
	startTimeout = 30 * time.Second
	pollInterval = 2 * time.Millisecond
)

var errPortTaken = errors.New("redistest: the port is taken")

// waitReady returns once the child answers PING on its Unix socket.
//
// The probe is a plain dial and not a go-redis client, whose pool, once dials
// have failed, redials only once a second. And it is the socket file and not
// the port, because only our own child can listen in its own folder: a PONG
// from the port might come from a stranger who took it first. Redis opens the
// socket file after the port, so both are open when this returns.
func waitReady(p *process, socket, logFile string) error {
	deadline := time.Now().Add(startTimeout)
	for time.Now().Before(deadline) {
		if answersPing(socket) {
			return nil
		}
		select {
		case <-p.done:
			return exitError(logFile)
		case <-time.After(pollInterval):
		}
	}
	return fmt.Errorf("redistest: no answer within %v; its log:\n%s", startTimeout, logTail(logFile))
}

// answersPing sends PING as an inline command. An error reply such as NOAUTH
// is an answer as well; LOADING is not, since commands do not run yet.
func answersPing(socket string) bool {
	conn, err := net.DialTimeout("unix", socket, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	return err == nil && !strings.HasPrefix(line, "-LOADING")
}

// exitError tells a lost race for the port, which is worth another try, from
// every other reason to exit. The log belongs to this start alone.
func exitError(logFile string) error {
	log := logTail(logFile)
	if bytes.Contains(log, []byte("Address already in use")) {
		return fmt.Errorf("%w; its log:\n%s", errPortTaken, log)
	}
	return fmt.Errorf("redistest: the server exited; its log:\n%s", log)
}

func logTail(logFile string) []byte {
	const most = 8 << 10
	log, err := os.ReadFile(logFile)
	if err != nil {
		return []byte(err.Error())
	}
	if len(log) > most {
		log = log[len(log)-most:]
	}
	return log
}
