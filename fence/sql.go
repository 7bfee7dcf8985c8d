package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// DB is what *sql.DB, *sql.Tx and *sql.Conn have in common.
type DB interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// SQL writes to the rows of one table under fencing tokens. Make it with NewSQL; it
// may be used by several goroutines.
//
// No older token overwrites a newer one, at any isolation level. Where the database
// cannot go on (a serialization failure, a busy SQLite file) the call fails with the
// database's error: roll the transaction back and repeat it. A stale token leaves a
// transaction usable: roll it back, or what else it has written stays.
//
// A row that is deleted takes its token along, and the next Upsert passes, whoever it
// is from. Mark rows as deleted instead; or keep the tokens in a table of their own,
// where an Upsert without columns is the guard of the whole transaction.
type SQL struct {
	table Table
}

// attempts bounds how often a statement is repeated that met no row to write, when a
// look at the table found nothing that forbids it: the row came or went in between.
const attempts = 5

// NewSQL checks the table's description; the database is not asked. The error is
// ErrInvalid, with the value and the rule.
func NewSQL(table Table) (*SQL, error) {
	if err := table.check(); err != nil {
		return nil, err
	}
	return &SQL{table: table}, nil
}

// Update sets columns, and the token, in the row with this key unless the token is
// stale. It is one statement: UPDATE … WHERE key = … AND token <= ….
//
// Without columns it only records the token. In a transaction that is a guard: the row
// stays locked until the end, so that all the rest of the transaction is fenced as
// well. A holder that is paused in there blocks the next one, until the database ends
// its transaction (in PostgreSQL: idle_in_transaction_session_timeout).
//
// The error Is ErrStale, ErrAbsent when there is no such row, ErrInvalid, or the
// database's own. After the last, outside of a transaction, the row may have been
// written; Update may be called again with the same token.
func (s *SQL) Update(ctx context.Context, db DB, key any, token int64, columns Columns) error {
	return s.write(ctx, db, s.table.update, key, token, columns)
}

// Upsert is an Update that inserts the row when there is none, in one statement too:
// INSERT … ON CONFLICT (key) DO UPDATE … WHERE token <= …. The columns must be enough
// for a new row, even if there is one already. ErrAbsent does not occur.
func (s *SQL) Upsert(ctx context.Context, db DB, key any, token int64, columns Columns) error {
	return s.write(ctx, db, s.table.upsert, key, token, columns)
}

// write checks its arguments and runs the statement. What is read afterwards only
// tells why nothing was written; it decides nothing.
func (s *SQL) write(ctx context.Context, db DB, build statement, key any, token int64, columns Columns) error {
	names, err := checkCall(s.table, db, key, token, columns)
	if err != nil {
		return err
	}
	query, inserts := build(names)
	args := []any{token, key}
	for _, name := range names {
		args = append(args, columns[name])
	}
	row := fmt.Sprintf("%s %v of %s", s.table.Key, key, s.table.Name)
	failed := func(err error) error { return fmt.Errorf("fence: %s with token %d: %w", row, token, err) }

	for range attempts {
		if written, err := s.exec(ctx, db, query, args); err != nil {
			return failed(err)
		} else if written {
			return nil
		}
		applied, err := s.applied(ctx, db, key)
		switch absent := errors.Is(err, sql.ErrNoRows); {
		case absent && !inserts:
			return failed(ErrAbsent)
		case err != nil && !absent:
			return failed(err)
		case applied > token:
			return &StaleError{Resource: row, Token: token, Applied: applied}
		}
	}
	return failed(fmt.Errorf("no row was written in %d attempts, and no newer token was found: a trigger or a policy may be in the way", attempts))
}

// exec says whether the row was written.
func (s *SQL) exec(ctx context.Context, db DB, query string, args []any) (bool, error) {
	result, err := db.ExecContext(ctx, query, args...)
	if err != nil {
		return false, err
	}
	rows, err := result.RowsAffected()
	if err == nil && rows > 1 {
		err = fmt.Errorf("%d rows were written: column %s must be unique", rows, s.table.Key)
	}
	return rows == 1, err
}

// applied is the row's token, 0 when it has none yet.
func (s *SQL) applied(ctx context.Context, db DB, key any) (int64, error) {
	var token sql.NullInt64
	err := db.QueryRowContext(ctx, s.table.applied(), key).Scan(&token)
	return token.Int64, err
}
