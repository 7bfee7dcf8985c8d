package sqltest

import (
	"database/sql"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/go-lynx/lynx-redis-lock/fence"
)

func TestSQL(t *testing.T) {
	onEach(t, func(t *testing.T, b backend, db *sql.DB) {
		for _, c := range behaviours {
			t.Run(c.name, func(t *testing.T) { c.show(t, newBed(t, b, db, ordinary)) })
		}
		for _, c := range shapes {
			t.Run(c.name, func(t *testing.T) { c.show(t, newBed(t, b, db, c.columns)) })
		}
		t.Run("random_operations_follow_the_model", func(t *testing.T) { followsTheModel(t, newBed(t, b, db, ordinary)) })
		t.Run("many_writers_never_go_back", func(t *testing.T) { neverGoesBack(t, newBed(t, b, db, ordinary)) })
		for _, level := range b.levels {
			t.Run("many_transactions_never_go_back/"+level.String(), func(t *testing.T) {
				transactionsNeverGoBack(t, newBed(t, b, db, ordinary), level)
			})
		}
	})
}

type behaviour struct {
	name string
	show func(*testing.T, bed)
}

var behaviours = []behaviour{
	{"a_newer_token_and_the_same_one_write_an_older_one_does_not", func(t *testing.T, x bed) {
		must(t, "the first write", x.Upsert(t.Context(), x.db, "a", 5, set("five")))
		must(t, "the same token", x.Upsert(t.Context(), x.db, "a", 5, set("five again")))
		must(t, "the same token", x.Update(t.Context(), x.db, "a", 5, set("and again")))
		equal(t, "the row", x.row(t, "a"), "and again 5")
		must(t, "a newer token", x.Upsert(t.Context(), x.db, "a", 6, set("six")))
		must(t, "a newer token", x.Update(t.Context(), x.db, "a", 9, set("nine")))
		must(t, "a newer token", x.Update(t.Context(), x.db, "a", 10, set("ten")))
		for _, older := range []int64{1, 9} {
			stale(t, x.Update(t.Context(), x.db, "a", older, set("stale")), older, 10)
			stale(t, x.Upsert(t.Context(), x.db, "a", older, set("stale")), older, 10)
		}
		equal(t, "the row", x.row(t, "a"), "ten 10")
	}},
	{"an_absent_row_is_told_from_a_stale_token", func(t *testing.T, x bed) {
		must(t, "another row", x.Upsert(t.Context(), x.db, "b", 7, set("seven")))
		err := x.Update(t.Context(), x.db, "a", 5, set("five"))
		if !errors.Is(err, fence.ErrAbsent) || errors.Is(err, fence.ErrStale) {
			t.Errorf("error %v, want ErrAbsent", err)
		}
		equal(t, "the row", x.row(t, "a"), "absent")
		equal(t, "the other row", x.row(t, "b"), "seven 7")
	}},
	{"a_row_without_a_token_takes_the_first_one", func(t *testing.T, x bed) {
		x.do(t, "INSERT INTO @ (id, value) VALUES ('a', 'old'), ('b', 'old')")
		must(t, "Update", x.Update(t.Context(), x.db, "a", 3, set("three")))
		must(t, "Upsert", x.Upsert(t.Context(), x.db, "b", 3, set("three")))
		equal(t, "the rows", x.row(t, "a")+", "+x.row(t, "b"), "three 3, three 3")
		stale(t, x.Update(t.Context(), x.db, "a", 2, set("two")), 2, 3)
	}},
	{"columns_keep_their_values_and_no_others_change", func(t *testing.T, x bed) {
		must(t, "Upsert", x.Upsert(t.Context(), x.db, "it's", 1, fence.Columns{"value": "'; DROP TABLE x; --", "n": 41}))
		must(t, "Upsert", x.Upsert(t.Context(), x.db, "it's", 1, fence.Columns{"N": 42}))
		must(t, "Update", x.Update(t.Context(), x.db, "it's", 2, nil))
		equal(t, "the row", x.row(t, "it's"), "'; DROP TABLE x; -- 2")
		var n int
		must(t, "n", x.db.QueryRowContext(t.Context(), "SELECT n FROM "+x.table).Scan(&n))
		equal(t, "n", n, 42)
		must(t, "Update to NULL", x.Update(t.Context(), x.db, "it's", 2, fence.Columns{"value": nil}))
		equal(t, "the row", x.row(t, "it's"), " 2")
	}},
	{"tokens_are_exact_up_to_the_largest", func(t *testing.T, x bed) {
		const top = math.MaxInt64
		must(t, "Upsert", x.Upsert(t.Context(), x.db, "a", top-1, set("last but one")))
		must(t, "Upsert", x.Upsert(t.Context(), x.db, "a", top, set("last")))
		stale(t, x.Upsert(t.Context(), x.db, "a", top-1, set("stale")), top-1, top)
		stale(t, x.Update(t.Context(), x.db, "a", top-1, set("stale")), top-1, top)
	}},
	{"a_connection_and_a_transaction_do_as_well", func(t *testing.T, x bed) {
		conn, err := x.db.Conn(t.Context())
		must(t, "Conn", err)
		must(t, "Upsert", x.Upsert(t.Context(), conn, "a", 1, set("one")))
		must(t, "Close", conn.Close())
		tx, err := x.db.BeginTx(t.Context(), nil)
		must(t, "BeginTx", err)
		must(t, "Update", x.Update(t.Context(), tx, "a", 2, set("two")))
		must(t, "Commit", tx.Commit())
		equal(t, "the row", x.row(t, "a"), "two 2")
	}},
	{"a_rolled_back_transaction_takes_its_token_along", func(t *testing.T, x bed) {
		must(t, "Upsert", x.Upsert(t.Context(), x.db, "a", 1, set("one")))
		tx, err := x.db.BeginTx(t.Context(), nil)
		must(t, "BeginTx", err)
		must(t, "Update", x.Update(t.Context(), tx, "a", 3, set("three")))
		must(t, "Rollback", tx.Rollback())
		must(t, "Update", x.Update(t.Context(), x.db, "a", 2, set("two")))
		equal(t, "the row", x.row(t, "a"), "two 2")
	}},
	{"a_stale_token_leaves_the_transaction_usable", func(t *testing.T, x bed) {
		must(t, "Upsert", x.Upsert(t.Context(), x.db, "a", 2, set("two")))
		tx, err := x.db.BeginTx(t.Context(), nil)
		must(t, "BeginTx", err)
		stale(t, x.Update(t.Context(), tx, "a", 1, set("one")), 1, 2)
		stale(t, x.Upsert(t.Context(), tx, "a", 1, set("one")), 1, 2)
		equal(t, "the row", x.rowOf(t, tx, "a"), "two 2")
		must(t, "Rollback", tx.Rollback())
	}},
	{"a_row_that_comes_between_write_and_look_is_written", func(t *testing.T, x bed) {
		db := &between{DB: x.db, happens: func() { must(t, "Upsert", x.Upsert(t.Context(), x.db, "a", 1, set("came"))) }}
		must(t, "Update", x.Update(t.Context(), db, "a", 2, set("two")))
		equal(t, "the row", x.row(t, "a"), "two 2")
	}},
	{"a_row_that_goes_between_write_and_look_is_inserted", func(t *testing.T, x bed) {
		must(t, "Upsert", x.Upsert(t.Context(), x.db, "a", 3, set("three")))
		db := &between{DB: x.db, happens: func() { x.do(t, "DELETE FROM @") }}
		must(t, "Upsert", x.Upsert(t.Context(), db, "a", 2, set("two")))
		equal(t, "the row", x.row(t, "a"), "two 2")
	}},
	{"a_write_that_a_trigger_swallows_is_an_error", func(t *testing.T, x bed) {
		must(t, "Upsert", x.Upsert(t.Context(), x.db, "a", 1, set("one")))
		x.do(t, x.ignore)
		failed(t, x.Update(t.Context(), x.db, "a", 2, set("two")), "no row was written")
		failed(t, x.Upsert(t.Context(), x.db, "a", 2, set("two")), "no row was written")
		equal(t, "the row", x.row(t, "a"), "one 1")
	}},
	{"a_deleted_row_takes_its_token_along", func(t *testing.T, x bed) {
		must(t, "Upsert", x.Upsert(t.Context(), x.db, "a", 2, set("two")))
		x.do(t, "DELETE FROM @")
		must(t, "an older token", x.Upsert(t.Context(), x.db, "a", 1, set("one")))
	}},
	{"a_table_may_be_named_with_its_schema", func(t *testing.T, x bed) {
		schema := map[fence.Dialect]string{fence.PostgreSQL: "public", fence.SQLite: "main"}[x.dialect]
		fenced := x.fence(t, schema+"."+x.table, "ID")
		must(t, "Upsert", fenced.Upsert(t.Context(), x.db, "a", 1, set("one")))
		must(t, "Update", fenced.Update(t.Context(), x.db, "a", 2, set("two")))
		stale(t, fenced.Upsert(t.Context(), x.db, "a", 1, set("one")), 1, 2)
	}},
	{"the_database's_own_errors_are_wrapped", func(t *testing.T, x bed) {
		failed(t, x.Update(t.Context(), x.db, "a", 1, fence.Columns{"missing": 1}), "missing")
		failed(t, x.Upsert(t.Context(), x.db, "a", 1, fence.Columns{"missing": 1}), "missing")
		fenced := x.fence(t, "nowhere", "id")
		failed(t, fenced.Update(t.Context(), x.db, "a", 1, nil), "nowhere")
	}},
	{"the_rest_of_a_transaction_is_fenced_by_its_guard", func(t *testing.T, x bed) {
		must(t, "the first holder", x.Upsert(t.Context(), x.db, "a", 5, set("five")))
		tx, err := x.db.BeginTx(t.Context(), nil)
		must(t, "BeginTx", err)
		must(t, "the guard", x.Update(t.Context(), tx, "a", 5, nil))
		next := make(chan error, 1)
		go func() { next <- x.Update(t.Context(), x.db, "a", 6, set("six")) }() // waits for the transaction
		select {
		case err := <-next: // a negative: it must not come in that time
			t.Errorf("the next holder did not wait: %v", err)
		case <-time.After(200 * time.Millisecond):
		}
		_, err = tx.ExecContext(t.Context(), "INSERT INTO "+x.table+" (id, value) VALUES ('other', 'by five')")
		must(t, "another write", err)
		must(t, "Commit", tx.Commit())
		must(t, "the next holder", <-next)
		stale(t, x.Update(t.Context(), x.db, "a", 5, nil), 5, 6)
		equal(t, "the rows", x.row(t, "a")+", "+x.row(t, "other"), "six 6, by five none")
	}},
}

// shapes are behaviours that need another table.
var shapes = []struct {
	name, columns string
	show          func(*testing.T, bed)
}{
	{"keys_may_be_numbers", "id BIGINT PRIMARY KEY, value TEXT, token BIGINT", func(t *testing.T, x bed) {
		for _, key := range []any{0, int64(-1), 42} {
			must(t, "Upsert", x.Upsert(t.Context(), x.db, key, 2, set("two")))
			stale(t, x.Update(t.Context(), x.db, key, 1, set("one")), 1, 2)
			equal(t, "the row", x.row(t, key), "two 2")
		}
	}},
	{"a_key_that_is_not_unique_is_an_error", "id TEXT, value TEXT, token BIGINT", func(t *testing.T, x bed) {
		x.do(t, "INSERT INTO @ VALUES ('a', 'one', 1), ('a', 'two', 1)")
		failed(t, x.Update(t.Context(), x.db, "a", 2, nil), "2 rows were written: column id must be unique")
		failed(t, x.Upsert(t.Context(), x.db, "a", 2, nil), "ON CONFLICT")
	}},
	{"a_key_column_that_is_also_a_function_is_a_column", `"user" TEXT PRIMARY KEY, id TEXT, value TEXT, token BIGINT`, func(t *testing.T, x bed) {
		// "WHERE user = 'postgres'" is true for every row of PostgreSQL's.
		x.do(t, `INSERT INTO @ ("user", id, value) VALUES ('postgres', '1', 'a'), ('else', '2', 'b')`)
		must(t, "Update", x.Update(t.Context(), x.db, "postgres", 1, set("written")))
		equal(t, "the rows", x.row(t, "1")+", "+x.row(t, "2"), "written 1, b none")
	}},
	{"tokens_in_a_column_of_text_are_not_compared_as_text", "id TEXT PRIMARY KEY, value TEXT, token TEXT", func(t *testing.T, x bed) {
		x.do(t, "INSERT INTO @ VALUES ('a', 'nine', '9'), ('b', 'ten', '10')")
		must(t, "Update", x.Update(t.Context(), x.db, "a", 10, set("ten")))
		stale(t, x.Update(t.Context(), x.db, "b", 9, set("nine")), 9, 10)
		if err := x.Upsert(t.Context(), x.db, "b", 9, set("nine")); x.dialect == fence.PostgreSQL {
			failed(t, err, "operator does not exist") // it is strict about types
		} else {
			stale(t, err, 9, 10)
		}
		equal(t, "the rows", x.row(t, "a")+", "+x.row(t, "b"), "ten 10, ten 10")
	}},
}
