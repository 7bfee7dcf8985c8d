package sqltest

import (
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
)

// startTimeout is generous: the machine may be busy with other tests.
const startTimeout = 60 * time.Second

// startPostgres runs a PostgreSQL server that lives until the test ends, with a
// database in a temporary folder and reached by a Unix socket there and by nothing
// else. It fails the test, and never skips it, when there is no server to run.
func startPostgres(tb testing.TB) *sql.DB {
	tb.Helper()
	bin := lookPostgres(tb)
	// Not tb.TempDir: its path holds the test's name and can exceed the 107 bytes of
	// a Unix socket's, and others than root cannot enter it.
	dir, err := os.MkdirTemp("", "fence-pg")
	must(tb, "a temporary folder", err)
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	attr := asPostgres(tb, dir)

	data, logFile := filepath.Join(dir, "data"), filepath.Join(dir, "log")
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = dir, attr
	runtime.LockOSThread() // as in run
	out, err := initdb.CombinedOutput()
	runtime.UnlockOSThread()
	if err != nil {
		tb.Fatalf("initdb: %v\n%s", err, out)
	}
	log, err := os.Create(logFile)
	must(tb, "the log", err)
	defer func() { _ = log.Close() }() // the child has its own copy
	server := exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off")
	server.Dir, server.Stdout, server.Stderr, server.SysProcAttr = dir, log, log, attr
	ended := run(tb, server)

	db, err := sql.Open("pgx", "host="+dir+" user=postgres dbname=postgres")
	must(tb, "opening PostgreSQL", err)
	tb.Cleanup(func() { _ = db.Close() }) // before the server's end
	awaitPostgres(tb, db, ended, logFile)
	return db
}

// run starts and reaps the server on one thread that lives as long as the server:
// the kernel sends the parent-death signal when the thread that started it ends. The
// end of the test ends the server. SIGQUIT is PostgreSQL's immediate shutdown, which
// takes its children and its shared memory along.
func run(tb testing.TB, cmd *exec.Cmd) (ended <-chan struct{}) {
	tb.Helper()
	started, done := make(chan error, 1), make(chan struct{})
	go func() { // ends with the server; the cleanup waits for it
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
		close(done)
	}()
	must(tb, "starting PostgreSQL", <-started)
	tb.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGQUIT) // an error means that it has ended already
		<-done
	})
	return done
}

func awaitPostgres(tb testing.TB, db *sql.DB, ended <-chan struct{}, logFile string) {
	tb.Helper()
	deadline := time.Now().Add(startTimeout)
	for {
		err := db.PingContext(tb.Context())
		if err == nil {
			return
		}
		select {
		case <-ended:
			err = errors.New("it ended")
		case <-time.After(20 * time.Millisecond):
			if time.Now().Before(deadline) {
				continue
			}
		}
		log, _ := os.ReadFile(logFile)
		tb.Fatalf("PostgreSQL does not answer: %v\n%s", err, log)
	}
}

// asPostgres gives the folder to the user that the server runs as: PostgreSQL
// refuses to run as root.
func asPostgres(tb testing.TB, dir string) *syscall.SysProcAttr {
	tb.Helper()
	attr := dieWithParent()
	if os.Getuid() != 0 {
		return attr
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		tb.Fatalf("PostgreSQL does not run as root, and the user postgres is missing (Debian's package postgresql makes it): %v", err)
	}
	uid, errUID := strconv.Atoi(account.Uid)
	gid, errGID := strconv.Atoi(account.Gid)
	must(tb, "the user postgres", errors.Join(errUID, errGID, os.Chown(dir, uid, gid)))
	attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return attr
}

// lookPostgres finds the folder of the server's programs: where the initdb on the PATH
// really is, or the newest of those where Debian has them.
func lookPostgres(tb testing.TB) string {
	tb.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	slices.SortFunc(found, func(a, b string) int { return version(b) - version(a) })
	if initdb, err := exec.LookPath("initdb"); err == nil {
		found = slices.Insert(found, 0, initdb)
	}
	for _, initdb := range found {
		if real, err := filepath.EvalSymlinks(initdb); err == nil {
			if _, err := os.Stat(filepath.Join(filepath.Dir(real), "postgres")); err == nil {
				return filepath.Dir(real)
			}
		}
	}
	tb.Fatal("these tests need a PostgreSQL server (initdb and postgres) on the PATH or below /usr/lib/postgresql; " +
		"install it (.ci/install-postgresql.sh; Debian and Ubuntu: apt-get install postgresql)")
	return ""
}

// version is 15 for /usr/lib/postgresql/15/bin/initdb.
func version(initdb string) int {
	n, _ := strconv.Atoi(strings.Split(initdb, "/")[4])
	return n
}
