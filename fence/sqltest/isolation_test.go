package sqltest

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/go-lynx/lynx-redis-lock/fence"
)

// A transaction whose view of the row is older than the newer token.
func TestPostgresASnapshotDoesNotLetAnOlderTokenPass(t *testing.T) {
	db := startPostgres(t)
	for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
		for _, c := range []struct {
			name  string
			token int64 // of the transaction; 5 was applied before it, 7 meanwhile
			write func(*fence.SQL) func(context.Context, fence.DB, any, int64, fence.Columns) error
		}{
			{"an older token updates", 6, update},
			{"an older token upserts", 6, upsert},
			{"a newer token updates", 8, update}, // may be repeated, is no silent success either
			{"a newer token upserts", 8, upsert},
		} {
			t.Run(level.String()+"/"+c.name, func(t *testing.T) {
				x := newBed(t, backends[0], db, ordinary)
				must(t, "Upsert", x.Upsert(t.Context(), db, "a", 5, set("five")))
				tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
				must(t, "BeginTx", err)
				equal(t, "the row in its snapshot", x.rowOf(t, tx, "a"), "five 5")
				must(t, "Update", x.Update(t.Context(), db, "a", 7, set("seven")))

				err = c.write(x.SQL)(t.Context(), tx, "a", c.token, set("late"))
				if !mustRepeat(err) {
					t.Errorf("error %v, want a serialization failure", err)
				}
				failed(t, err, "token")
				must(t, "Rollback", tx.Rollback())
				equal(t, "the row", x.row(t, "a"), "seven 7")
			})
		}
		t.Run(level.String()+"/a row that came after the snapshot", func(t *testing.T) {
			x := newBed(t, backends[0], db, ordinary)
			tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
			must(t, "BeginTx", err)
			equal(t, "the row in its snapshot", x.rowOf(t, tx, "a"), "absent")
			must(t, "Upsert", x.Upsert(t.Context(), db, "a", 7, set("seven")))
			if err := x.Upsert(t.Context(), tx, "a", 6, set("late")); !mustRepeat(err) {
				t.Errorf("error %v, want a serialization failure", err)
			}
			must(t, "Rollback", tx.Rollback())
			equal(t, "the row", x.row(t, "a"), "seven 7")
		})
	}
}

func update(s *fence.SQL) func(context.Context, fence.DB, any, int64, fence.Columns) error {
	return s.Update
}

func upsert(s *fence.SQL) func(context.Context, fence.DB, any, int64, fence.Columns) error {
	return s.Upsert
}

// An older token that waits for a transaction with a newer one is judged by what
// that has left, not by what was there when it came.
func TestPostgresAnOlderTokenThatWaited(t *testing.T) {
	db := startPostgres(t)
	for _, c := range []struct {
		name   string
		first  bool // there is a row already
		commit bool
		write  func(*fence.SQL) func(context.Context, fence.DB, any, int64, fence.Columns) error
		want   string
	}{
		{"for an update that was committed, with an update", true, true, update, "newer 7"},
		{"for an update that was committed, with an upsert", true, true, upsert, "newer 7"},
		{"for an insert that was committed, with an upsert", false, true, upsert, "newer 7"},
		{"for an update that was rolled back, with an update", true, false, update, "older 6"},
		{"for an insert that was rolled back, with an upsert", false, false, upsert, "older 6"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newBed(t, backends[0], db, ordinary)
			if c.first {
				must(t, "Upsert", x.Upsert(t.Context(), db, "a", 5, set("five")))
			}
			tx, err := db.BeginTx(t.Context(), nil)
			must(t, "BeginTx", err)
			must(t, "the newer token", x.Upsert(t.Context(), tx, "a", 7, set("newer")))
			older := make(chan error, 1)
			go func() { older <- c.write(x.SQL)(t.Context(), db, "a", 6, set("older")) }()
			awaitWaiter(t, db)
			if c.commit {
				must(t, "Commit", tx.Commit())
				stale(t, <-older, 6, 7)
			} else {
				must(t, "Rollback", tx.Rollback())
				must(t, "the older token", <-older)
			}
			equal(t, "the row", x.row(t, "a"), c.want)
		})
	}
}

// awaitWaiter returns when a session waits for another one's lock.
func awaitWaiter(t *testing.T, db *sql.DB) {
	t.Helper()
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(5 * time.Millisecond) {
		var waiting int
		must(t, "looking for a waiter", db.QueryRowContext(t.Context(),
			"SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'").Scan(&waiting))
		if waiting > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody waits")
		}
	}
}
