// Package redistest gives tests private Redis servers and a network they can
// break.
//
// [Start] runs a redis-server process of the test's own on a free loopback
// port; it can be killed, restarted with its data, and frozen. [StartTLS] runs
// one that speaks only TLS, [StartSentinel] a primary with replicas and
// Sentinels, [StartCluster] a Cluster; the last two fail over by a crash or by
// order, and heal, as often as a test likes. [StartProxy]
// stands between a client and a server and loses, delays and repeats single
// commands or replies, which is how an unknown outcome is made on purpose.
//
// A missing redis-server fails the test. Nothing here skips: a suite that ran
// without its servers has shown nothing.
//
// The files are layered: ports.go hands out ports, process.go owns one child
// process, ready.go waits for it, version.go notes which server it is, server.go
// is the standalone shape, admin.go asks servers about themselves, and sentinel.go,
// cluster.go and tls.go are the other shapes.
package redistest
