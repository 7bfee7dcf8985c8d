package fence_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/go-lynx/lynx-redis-lock/fence"
)

// The statements are shown on databases in the module sqltest. Here: what is refused
// before a database is asked.

// untouched is a database that nobody may ask.
type untouched struct{ t *testing.T }

func (u untouched) ExecContext(_ context.Context, query string, _ ...any) (sql.Result, error) {
	u.t.Errorf("the database was sent %q", query)
	return nil, sql.ErrConnDone
}

func (u untouched) QueryRowContext(_ context.Context, query string, _ ...any) *sql.Row {
	u.t.Errorf("the database was asked %q", query)
	return nil
}

var orders = fence.Table{Dialect: fence.PostgreSQL, Name: "orders", Key: "id", Token: "token"}

func TestNewSQLRefuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 64)
	for want, change := range map[string]func(*fence.Table){
		"dialect 0 must be PostgreSQL or SQLite":                 func(o *fence.Table) { o.Dialect = 0 },
		"dialect 3 must be PostgreSQL or SQLite":                 func(o *fence.Table) { o.Dialect = 3 },
		`table "" must be an identifier`:                         func(o *fence.Table) { o.Name = "" },
		`table "orders; DROP TABLE x" must be an identifier`:     func(o *fence.Table) { o.Name = "orders; DROP TABLE x" },
		`table "\"orders\"" must be an identifier`:               func(o *fence.Table) { o.Name = `"orders"` },
		`schema "" must be an identifier`:                        func(o *fence.Table) { o.Name = ".orders" },
		`table "b.c" must be an identifier`:                      func(o *fence.Table) { o.Name = "a.b.c" },
		`table "" must be an identifier: 1`:                      func(o *fence.Table) { o.Name = "shop." },
		`key column "" must be an identifier`:                    func(o *fence.Table) { o.Key = "" },
		`key column "id = id OR id" must be an identifier`:       func(o *fence.Table) { o.Key = "id = id OR id" },
		`key column "1d" must be an identifier`:                  func(o *fence.Table) { o.Key = "1d" },
		`key column "größe" must be an identifier`:               func(o *fence.Table) { o.Key = "größe" },
		`token column "token--" must be an identifier`:           func(o *fence.Table) { o.Token = "token--" },
		`token column "token\n" must be an identifier`:           func(o *fence.Table) { o.Token = "token\n" },
		`token column "` + long + `" must be an identifier`:      func(o *fence.Table) { o.Token = long },
		`token column "ID" must not be the key column "id"`:      func(o *fence.Table) { o.Token = "ID" },
		`token column "id" must not be the key column "id"`:      func(o *fence.Table) { o.Token = "id" },
		`token column "token(x)" must be an identifier: 1 to 63`: func(o *fence.Table) { o.Token = "token(x)" },
	} {
		table := orders
		change(&table)
		_, err := fence.NewSQL(table)
		invalid(t, err, want)
	}
	for _, name := range []string{"orders", "shop.orders", "_o", "O2", long[1:]} {
		table := orders
		table.Name = name
		_, err := fence.NewSQL(table)
		must(t, name, err)
	}
}

type orderID string

func TestSQLRefusesBeforeItAsks(t *testing.T) {
	t.Parallel()
	fenced, err := fence.NewSQL(orders)
	must(t, "NewSQL", err)
	var nowhere *int
	for _, c := range []struct {
		key     any
		token   int64
		columns fence.Columns
		want    string
	}{
		{nil, 1, nil, "key <nil> must not be empty"},
		{"", 1, nil, `key "" must not be empty`},
		{orderID(""), 1, nil, `key "" must not be empty`},
		{[]byte{}, 1, nil, "key []byte{} must not be empty"},
		{sql.NullString{}, 1, nil, "must not be empty"},
		{nowhere, 1, nil, "must not be empty"},
		{"a", 0, nil, "token 0 must be larger than 0"},
		{"a", -7, nil, "token -7 must be larger than 0"},
		{"a", 1, fence.Columns{"": 1}, `column "" must be an identifier`},
		{"a", 1, fence.Columns{"x = 1, y": 1}, `column "x = 1, y" must be an identifier`},
		{"a", 1, fence.Columns{"orders.x": 1}, `column "orders.x" must be an identifier`},
		{"a", 1, fence.Columns{"token": 99}, `column "token" must not be set beside "token"`},
		{"a", 1, fence.Columns{"Token": 99}, `column "Token" must not be set beside "token"`},
		{"a", 1, fence.Columns{"ID": 99}, `column "ID" must not be set beside "id"`},
		{"a", 1, fence.Columns{"X": 1, "x": 2}, `column "x" must not be set beside "X"`},
	} {
		invalid(t, fenced.Update(t.Context(), untouched{t}, c.key, c.token, c.columns), c.want)
		invalid(t, fenced.Upsert(t.Context(), untouched{t}, c.key, c.token, c.columns), c.want)
	}
	invalid(t, fenced.Update(t.Context(), nil, "a", 1, nil), "database must not be nil")
}
