// Package test runs the lock in several processes under a nemesis, records what they
// did and believed, and checks the history.
//
//	go test -run TestHistories .                                   # one minute in all
//	go test -run TestHistories . -duration 10m -operations 100000  # as long as asked
//	go test -run TestHistories . -seed 7                           # the same schedule again
//	go test -run TestHistories . -again FOLDER                     # judge a kept history
//	go run ./mutants                                               # check the checker
//
// client is one such process, nemesis does harm, history is what is recorded, check
// judges it, and mutants shows on broken copies of the lock that it does.
//
// The schedule of a seed is always the same, what it meets is not: the machine decides.
package test
