// Package bench measures the lock beside its peers, on a Redis server of its own.
//
//	make bench           the speed tables of RESULTS.md, about a quarter of an hour
//	make bench-renewal   its renewal tables
//	go test ./...        each benchmark once, as short as can be: that it still works
//
// The benchmarks are tests because the servers of internal/redistest belong to one.
// Contestants are in package contestant, what they do in workload, what is counted in
// measure, the tables and goals in report, and what concerns renewal in renewal.
package bench
