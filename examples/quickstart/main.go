// Command quickstart shows the lock in a whole Lynx application, and checks what it
// shows: several workers compete for one key, a section longer than its lease is
// renewed, and a worker that loses its lease is told and cannot write any more.
//
// It ends by itself within 10 s, with exit code 0 when everything that happened is
// what should happen, and otherwise with 1 and a list of what differed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

const timeLimit = 7 * time.Second // and then the application stops

// config is what the command line chooses, and the tests beyond it.
type config struct {
	redis   []string // host:port of each server; none: a Redis inside this process
	metrics string   // host:port that serves /metrics; port 0: a free one

	disturb func()   // called once inside a section, in the middle of the competition
	fence   resource // instead of a real one
}

func main() {
	cfg, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2)
	}
	quietKratos()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = run(ctx, cfg, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// parse reads the command line; it has told the user about an error.
func parse(args []string, stderr io.Writer) (config, error) {
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "quickstart shows a Redis lock in a Lynx application, checks what happened, and ends within 10 s.")
		flags.PrintDefaults()
	}
	addrs := flags.String("redis", "", "`host:port` of a Redis server, or host:port,host:port,… of a Redis Cluster; by default a Redis inside this process")
	metrics := flags.String("metrics", "127.0.0.1:0", "`host:port` that serves /metrics while the program runs; port 0: a free one")
	if err := flags.Parse(args); err != nil {
		return config{}, err
	}
	if flags.NArg() > 0 {
		err := fmt.Errorf("unexpected argument %q", flags.Arg(0))
		fmt.Fprintln(stderr, err)
		flags.Usage()
		return config{}, err
	}
	split := func(r rune) bool { return r == ',' || r == ' ' }
	return config{redis: strings.FieldsFunc(*addrs, split), metrics: *metrics}, nil
}

// run is the program. Its last line of output says that all went well.
func run(ctx context.Context, cfg config, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	summary, err := runApp(ctx, cfg, out)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "ok:", summary)
	return err
}

// runApp boots the application, lets the demo happen and stops the application.
func runApp(ctx context.Context, cfg config, out io.Writer) (summary string, err error) {
	if len(cfg.redis) == 0 {
		embedded, err := startEmbedded()
		if err != nil {
			return "", fmt.Errorf("starting the embedded Redis: %w", err)
		}
		defer embedded.Close()
		cfg.redis = []string{embedded.Addr()}
	}
	app, err := boot(cfg.redis)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, app.Close()) }()
	site, err := serveMetrics(cfg.metrics)
	if err != nil {
		return "", err
	}
	defer site.close()
	d, err := newDemo(cfg, app, out)
	if err != nil {
		return "", err
	}
	defer d.close()
	return d.all(ctx, site)
}
