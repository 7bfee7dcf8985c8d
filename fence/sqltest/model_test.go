package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-lynx/lynx-redis-lock/fence"
)

// followsTheModel compares random operations with a map.
func followsTheModel(t *testing.T, x bed) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	type row struct {
		value string
		token int64
	}
	rows := map[string]row{}
	for step := range 600 {
		key, value := string(rune('a'+rng.IntN(4))), fmt.Sprint("v", step)
		old, exists := rows[key]
		token := max(1, old.token+rng.Int64N(6)-2)
		write, name := x.Update, "Update"
		switch rng.IntN(8) {
		case 0:
			x.do(t, "DELETE FROM @ WHERE id = '"+key+"'")
			delete(rows, key)
			continue
		case 1, 2, 3:
			write, name = x.Upsert, "Upsert"
		}
		err := write(t.Context(), x.db, key, token, set(value))
		switch {
		case !exists && name == "Update":
			if !errors.Is(err, fence.ErrAbsent) {
				t.Errorf("error %v, want ErrAbsent", err)
			}
		case token < old.token:
			stale(t, err, token, old.token)
		default:
			if err != nil {
				t.Error(err)
			}
			rows[key] = row{value, token}
		}
		want := "absent"
		if now, exists := rows[key]; exists {
			want = fmt.Sprint(now.value, " ", now.token)
		}
		equal(t, "the row", x.row(t, key), want)
		if t.Failed() {
			t.Fatalf("seed %d, step %d: %s of %q with token %d", seed, step, name, key, token)
		}
	}
}

const writers, each = 8, 25

// neverGoesBack has many writers with tokens in random order write to one row, each
// statement a transaction of its own.
func neverGoesBack(t *testing.T, x bed) {
	concurrently(t, x, func(ctx context.Context, token int64) error { return x.random(ctx, x.db, token) })
}

// transactionsNeverGoBack does the same in transactions that have read before, so
// that some of them are refused by the database and repeated.
func transactionsNeverGoBack(t *testing.T, x bed, level sql.IsolationLevel) {
	var repeated atomic.Int64
	concurrently(t, x, func(ctx context.Context, token int64) error {
		for {
			err := x.transaction(ctx, level, token)
			if !mustRepeat(err) {
				return err
			}
			repeated.Add(1)
		}
	})
	t.Logf("%d transactions were repeated", repeated.Load())
}

func (x bed) transaction(ctx context.Context, level sql.IsolationLevel, token int64) error {
	tx, err := x.db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a Commit it does nothing
	var n int
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM "+x.table).Scan(&n); err != nil {
		return err
	}
	if err := x.random(ctx, tx, token); err != nil {
		return err
	}
	return tx.Commit()
}

// random writes with one of the two verbs; the highest token inserts if it must.
func (x bed) random(ctx context.Context, db fence.DB, token int64) error {
	write := x.Update
	if token%2 == 0 {
		write = x.Upsert
	}
	return write(ctx, db, "a", token, set(fmt.Sprint("by ", token)))
}

func concurrently(t *testing.T, x bed, write func(context.Context, int64) error) {
	t.Helper()
	x.do(t, x.history)
	tokens, results := rand.Perm(writers*each), make([]error, writers*each)
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for _, token := range tokens[w*each : (w+1)*each] {
				results[token] = write(t.Context(), int64(token)+1)
			}
		})
	}
	group.Wait()

	written, refused := 0, 0
	for i, err := range results {
		var staleErr *fence.StaleError
		switch token := int64(i) + 1; {
		case err == nil:
			written++
		case errors.As(err, &staleErr) && staleErr.Token == token && staleErr.Applied > token:
			refused++
		case !errors.Is(err, fence.ErrAbsent): // an Update before the first Upsert
			t.Errorf("token %d: %v", token, err)
		}
	}
	if written < 2 || refused < 2 {
		t.Errorf("%d were written and %d refused, which shows little", written, refused)
	}
	equal(t, "the length of the history", x.neverBack(t), written)
	equal(t, "the row", x.row(t, "a"), fmt.Sprintf("by %d %d", writers*each, writers*each))
}

// neverBack checks the order in which tokens were applied, and counts them.
func (x bed) neverBack(t *testing.T) (count int) {
	t.Helper()
	rows, err := x.db.QueryContext(t.Context(), "SELECT token FROM "+x.table+"_history ORDER BY n")
	must(t, "the history", err)
	defer func() { _ = rows.Close() }()
	var highest int64
	for ; rows.Next(); count++ {
		var token int64
		must(t, "the history", rows.Scan(&token))
		if token < highest {
			t.Errorf("token %d was applied after %d", token, highest)
		}
		highest = max(highest, token)
	}
	must(t, "the history", rows.Err())
	return count
}
