package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"
	"modernc.org/sqlite"

	"github.com/go-lynx/lynx-redis-lock/fence"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// backend is a database and what differs between the two.
type backend struct {
	name    string
	dialect fence.Dialect
	start   func(testing.TB) *sql.DB
	levels  []sql.IsolationLevel
	param   string
	history string // has every applied token written down, in the order of the writes
	ignore  string // makes updates of the table do nothing
}

var backends = []backend{
	{
		name: "PostgreSQL", dialect: fence.PostgreSQL, start: startPostgres, param: "$1",
		levels: []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable},
		history: `CREATE TABLE @_history (n BIGINT GENERATED ALWAYS AS IDENTITY, token BIGINT);
			CREATE FUNCTION @_note() RETURNS trigger LANGUAGE plpgsql AS
				'BEGIN INSERT INTO @_history (token) VALUES (NEW.token); RETURN NEW; END';
			CREATE TRIGGER @_note AFTER INSERT OR UPDATE ON @ FOR EACH ROW EXECUTE FUNCTION @_note()`,
		ignore: `CREATE FUNCTION @_ignore() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
			CREATE TRIGGER @_ignore BEFORE UPDATE ON @ FOR EACH ROW EXECUTE FUNCTION @_ignore()`,
	},
	{
		name: "SQLite", dialect: fence.SQLite, start: startSQLite, param: "?1",
		levels: []sql.IsolationLevel{sql.LevelDefault},
		history: `CREATE TABLE @_history (n INTEGER PRIMARY KEY AUTOINCREMENT, token BIGINT);
			CREATE TRIGGER @_i AFTER INSERT ON @ BEGIN INSERT INTO @_history (token) VALUES (NEW.token); END;
			CREATE TRIGGER @_u AFTER UPDATE ON @ BEGIN INSERT INTO @_history (token) VALUES (NEW.token); END`,
		ignore: `CREATE TRIGGER @_g BEFORE UPDATE ON @ BEGIN SELECT RAISE(IGNORE); END`,
	},
}

// startSQLite makes a database file, on which writers wait for each other.
func startSQLite(tb testing.TB) *sql.DB {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "fence.db")
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(30000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)")
	must(tb, "opening SQLite", err)
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

// onEach runs a test on both databases.
func onEach(t *testing.T, test func(*testing.T, backend, *sql.DB)) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) { test(t, b, b.start(t)) })
	}
}

// bed is a table of a test's own, and its fence.
type bed struct {
	backend
	*fence.SQL
	db    *sql.DB
	table string
}

const ordinary = "id TEXT PRIMARY KEY, value TEXT, n BIGINT, token BIGINT"

var tables atomic.Int64

func newBed(t *testing.T, b backend, db *sql.DB, columns string) bed {
	t.Helper()
	x := bed{backend: b, db: db, table: fmt.Sprint("orders", tables.Add(1))}
	x.do(t, "CREATE TABLE @ ("+columns+")")
	key, _, _ := strings.Cut(columns, " ")
	x.SQL = x.fence(t, x.table, strings.Trim(key, `"`))
	return x
}

func (x bed) fence(t *testing.T, table, key string) *fence.SQL {
	t.Helper()
	fenced, err := fence.NewSQL(fence.Table{Dialect: x.dialect, Name: table, Key: key, Token: "token"})
	must(t, "NewSQL", err)
	return fenced
}

// do runs statements with the table's name in the place of @.
func (x bed) do(t *testing.T, statements string) {
	t.Helper()
	text := strings.ReplaceAll(statements, "@", x.table)
	_, err := x.db.ExecContext(t.Context(), text)
	must(t, text, err)
}

// row is what a row has; "absent" without one, and "none" for a token of NULL.
func (x bed) row(t *testing.T, key any) string {
	t.Helper()
	return x.rowOf(t, x.db, key)
}

func (x bed) rowOf(t *testing.T, db fence.DB, key any) string {
	t.Helper()
	var value sql.NullString
	var token sql.NullInt64
	err := db.QueryRowContext(t.Context(), "SELECT value, token FROM "+x.table+" WHERE id = "+x.param, key).Scan(&value, &token)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "absent"
	case err != nil:
		t.Fatalf("row %v: %v", key, err)
	case !token.Valid:
		return value.String + " none"
	}
	return fmt.Sprintf("%s %d", value.String, token.Int64)
}

func set(value string) fence.Columns { return fence.Columns{"value": value} }

// mustRepeat says that the database refused to go on, and wrote nothing: a
// serialization failure, a deadlock, or a busy file.
func mustRepeat(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code == "40001" || pg.Code == "40P01"
	}
	var lite *sqlite.Error
	return errors.As(err, &lite) && lite.Code()&0xff == 5
}

// between is a database in which something happens between a write and the look
// that follows it.
type between struct {
	fence.DB
	happens func()
}

func (b *between) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if b.happens != nil {
		b.happens()
		b.happens = nil
	}
	return b.DB.QueryRowContext(ctx, query, args...)
}

func must(tb testing.TB, what string, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatalf("%s: %v", what, err)
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// stale wants a refusal that names both tokens, and is no absence.
func stale(t *testing.T, err error, token, applied int64) {
	t.Helper()
	var refused *fence.StaleError
	if !errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrAbsent) || !errors.As(err, &refused) {
		t.Errorf("token %d under %d: error %v, want ErrStale", token, applied, err)
		return
	}
	equal(t, "Token", refused.Token, token)
	equal(t, "Applied", refused.Applied, applied)
	for _, part := range []string{fmt.Sprint("token ", token), fmt.Sprint("token ", applied), refused.Resource} {
		if part == "" || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %q", part, err)
		}
	}
}

// failed wants an error with this text that is neither stale nor absent.
func failed(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrAbsent) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %q", err, want)
	}
}
