package fence

import (
	"database/sql/driver"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Dialect is the database's way of writing the statements. MySQL is not among them:
// its ON DUPLICATE KEY UPDATE takes no condition.
type Dialect int

// The dialects. The zero value is none of them.
const (
	PostgreSQL Dialect = iota + 1 // parameters are $1, $2, …
	SQLite                        // parameters are ?1, ?2, …; 3.24 or later
)

// Table says where the rows and their tokens are. Names are identifiers of 1 to 63
// ASCII letters, digits and underscores that do not begin with a digit. They are not
// quoted, so that case counts as little as in SQL, and a reserved word (user, order)
// is a syntax error.
type Table struct {
	Dialect Dialect
	Name    string // of the table, with its schema or without: "orders", "shop.orders"
	Key     string // the column that tells rows apart: primary key, or UNIQUE and NOT NULL
	// Token is the column for the highest applied token: BIGINT in PostgreSQL, INTEGER
	// in SQLite. NULL means none so far, so it can be added to a table that has rows.
	Token string
}

// Columns are the values to write, by the names of their columns. The names are the
// program's, never its users': a name that is not an identifier is refused.
type Columns map[string]any

// 63 bytes is what PostgreSQL keeps of a name; longer ones it cuts without an error.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

func checkName(what, name string) error {
	if !identifier.MatchString(name) {
		return invalid("%s %q must be an identifier: 1 to 63 ASCII letters, digits or underscores, no digit first", what, name)
	}
	return nil
}

func (t Table) check() error {
	if t.Dialect != PostgreSQL && t.Dialect != SQLite {
		return invalid("dialect %d must be PostgreSQL or SQLite", t.Dialect)
	}
	names := []struct{ what, name string }{{"table", t.Name}, {"key column", t.Key}, {"token column", t.Token}}
	if schema, table, qualified := strings.Cut(t.Name, "."); qualified {
		names[0].name = table
		names = append(names, struct{ what, name string }{"schema", schema})
	}
	for _, n := range names {
		if err := checkName(n.what, n.name); err != nil {
			return err
		}
	}
	if strings.EqualFold(t.Key, t.Token) {
		return invalid("token column %q must not be the key column %q", t.Token, t.Key)
	}
	return nil
}

// checkCall checks one call's arguments. It returns the columns' names in one order,
// so that equal calls are equal statements.
func checkCall(t Table, db DB, key any, token int64, columns Columns) ([]string, error) {
	if db == nil {
		return nil, invalid("the database must not be nil")
	}
	if emptyKey(key) {
		return nil, invalid("key %#v must not be empty", key)
	}
	if err := checkToken(token); err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(columns))
	seen := map[string]string{strings.ToLower(t.Key): t.Key, strings.ToLower(t.Token): t.Token}
	for _, name := range names {
		if err := checkName("column", name); err != nil {
			return nil, err
		}
		folded := strings.ToLower(name)
		if other, twice := seen[folded]; twice {
			return nil, invalid("column %q must not be set beside %q", name, other)
		}
		seen[folded] = name
	}
	return names, nil
}

// emptyKey: NULL, or nothing in it. What only the driver understands is not empty.
func emptyKey(key any) bool {
	value, err := driver.DefaultParameterConverter.ConvertValue(key)
	if err != nil {
		return false
	}
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []byte:
		return len(v) == 0
	}
	return false
}

// statement builds a query for these columns, whose parameters are the token, the key
// and the columns' values, and says whether it inserts.
type statement func(names []string) (query string, inserts bool)

// fresh is the condition of every write. Columns are qualified, or a column called
// "user" would be PostgreSQL's function of this name; the cast makes SQLite compare
// numbers even in a column of text.
func (t Table) fresh() string {
	return fmt.Sprintf("COALESCE(CAST(fenced.%s AS BIGINT), 0) <= %s", t.Token, t.param(1))
}

func (t Table) update(names []string) (string, bool) {
	set := make([]string, 0, len(names)+1)
	for i, name := range names {
		set = append(set, name+" = "+t.param(i+3))
	}
	set = append(set, t.Token+" = "+t.param(1))
	return fmt.Sprintf("UPDATE %s AS fenced SET %s WHERE fenced.%s = %s AND %s",
		t.Name, strings.Join(set, ", "), t.Key, t.param(2), t.fresh()), false
}

func (t Table) upsert(names []string) (string, bool) {
	all := append([]string{t.Token, t.Key}, names...)
	params, set := make([]string, len(all)), make([]string, 0, len(all))
	for i, name := range all {
		params[i] = t.param(i + 1)
		if name != t.Key {
			set = append(set, name+" = excluded."+name)
		}
	}
	return fmt.Sprintf("INSERT INTO %s AS fenced (%s) VALUES (%s) ON CONFLICT (%s) DO UPDATE SET %s WHERE %s",
		t.Name, strings.Join(all, ", "), strings.Join(params, ", "), t.Key, strings.Join(set, ", "), t.fresh()), true
}

// applied asks for a row's token; its one parameter is the key.
func (t Table) applied() string {
	return fmt.Sprintf("SELECT CAST(fenced.%s AS BIGINT) FROM %s AS fenced WHERE fenced.%s = %s",
		t.Token, t.Name, t.Key, t.param(1))
}

func (t Table) param(n int) string {
	if t.Dialect == PostgreSQL {
		return "$" + strconv.Itoa(n)
	}
	return "?" + strconv.Itoa(n)
}
