// Package redistest gives tests private Redis servers and a network they can
// break.
//
// [Start] runs a redis-server process of the test's own on a free loopback
// port; it can be killed, restarted with its data, and frozen. [StartProxy]
// stands between a client and a server and loses, delays and repeats single
// commands or replies, which is how an unknown outcome is made on purpose.
//
// A missing redis-server fails the test. Nothing here skips: a suite that ran
// without its servers has shown nothing.
//
// The files are layered so that other shapes (Sentinel, Cluster, TLS) can be
// added beside server.go: ports.go hands out ports, process.go owns one child
// process, ready.go waits for it, server.go is the standalone shape.
package redistest
