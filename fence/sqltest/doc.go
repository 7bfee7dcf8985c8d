// Package sqltest shows package fence on real databases, PostgreSQL and SQLite. It is
// a module of its own, so that users of the lock build neither driver, and has nothing
// but tests.
package sqltest
