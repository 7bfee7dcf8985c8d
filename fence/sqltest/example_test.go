package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "modernc.org/sqlite"

	"github.com/go-lynx/lynx-redis-lock/fence"
)

// A row that remembers the highest token it was written with. The tokens are those of
// RedisLock.GetToken or LockWithToken.
func ExampleSQL() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1) // each connection to :memory: is a database of its own
	_, err = db.ExecContext(ctx, "CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT, token INTEGER)")
	if err != nil {
		fmt.Println(err)
		return
	}
	orders, err := fence.NewSQL(fence.Table{Dialect: fence.SQLite, Name: "orders", Key: "id", Token: "token"})
	if err != nil {
		fmt.Println(err)
		return
	}

	const paused, next = 1, 2 // the tokens of two holders
	fmt.Println("next:  ", orders.Upsert(ctx, db, 42, next, fence.Columns{"status": "paid"}))
	err = orders.Update(ctx, db, 42, paused, fence.Columns{"status": "cancelled"})
	fmt.Println("paused:", errors.Is(err, fence.ErrStale), err)
	fmt.Println("absent:", errors.Is(orders.Update(ctx, db, 43, next, nil), fence.ErrAbsent))
	// Output:
	// next:   <nil>
	// paused: true fence: stale token 1 for id 42 of orders: token 2 was applied already
	// absent: true
}

// A guard at the beginning of a transaction: the tokens are in a table of their own,
// so that rows may come and go.
func ExampleSQL_transaction() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(ctx, `CREATE TABLE fences (resource TEXT PRIMARY KEY, token INTEGER NOT NULL);
		CREATE TABLE cart (item TEXT)`)
	if err != nil {
		fmt.Println(err)
		return
	}
	fences, err := fence.NewSQL(fence.Table{Dialect: fence.SQLite, Name: "fences", Key: "resource", Token: "token"})
	if err != nil {
		fmt.Println(err)
		return
	}
	empty := func(token int64) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // after a Commit it does nothing
		if err := fences.Upsert(ctx, tx, "cart", token, nil); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM cart"); err != nil {
			return err
		}
		return tx.Commit()
	}
	fmt.Println(empty(2))
	fmt.Println(empty(1))
	// Output:
	// <nil>
	// fence: stale token 1 for resource cart of fences: token 2 was applied already
}
