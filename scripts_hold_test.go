package redislock_test

// reenter: value, lease, depth wanted, least TTL of the counter.
var reenterCases = []scriptCase{
	{
		name: "the second level writes the count and lengthens all", before: "owner me 30s, counter 5 100s",
		call: "me 60000 2 200000", reply: "1 -1", after: "owner me 60s, count 2 60s, counter 5 200s", again: "1 2",
	},
	{
		name: "a request that runs twice counts once", before: "owner me 30s, count 2 30s, counter 5 100s",
		call: "me 60000 3 200000", reply: "1 2", after: "owner me 60s, count 3 60s, counter 5 200s", again: "1 3",
	},
	{
		name: "a longer lease is not shortened", before: "owner me 90s, count 2 30s, counter 5 500s",
		call: "me 60000 3 200000", reply: "1 2", after: "owner me 90s, count 3 90s, counter 5 500s", again: "1 3",
	},
	{
		name: "it reports a count that was lowered elsewhere", before: "owner me 30s, count 1 30s",
		call: "me 60000 4 200000", reply: "1 1", after: "owner me 60s, count 4 60s", again: "1 4",
	},
	{
		name: "it reports a count that is higher", before: "owner me 30s, count 7 30s",
		call: "me 60000 3 200000", reply: "1 7", after: "owner me 60s, count 3 60s", again: "1 3",
	},
	{
		name: "a count that is no number is none", before: "owner me 30s, count abc 30s",
		call: "me 60000 2 200000", reply: "1 -1", after: "owner me 60s, count 2 60s", again: "1 2",
	},
	{
		name: "an owner and a counter without a TTL get one", before: "owner me -, count 2 -, counter 5 -",
		call: "me 60000 3 200000", reply: "1 2", after: "owner me 60s, count 3 60s, counter 5 200s",
	},
	{
		name: "a missing counter is not made", before: "owner me 30s",
		call: "me 60000 2 200000", reply: "1 -1", after: "owner me 60s, count 2 60s",
	},
	{
		name: "with a FenceKey no counter is touched", before: "owner me 30s, counter 5 100s", keys: "owner count",
		call: "me 60000 2 0", reply: "1 -1", after: "owner me 60s, count 2 60s, counter 5 100s", again: "1 2",
	},
	{
		name: "another owner refuses", before: "owner other 30s, count 2 30s, counter 5 100s",
		call: "me 60000 2 200000", reply: "2 0", after: same, again: "2 0",
	},
	{
		name: "an absent owner refuses, a stale count proves nothing", before: "count 2 30s, counter 5 100s",
		call: "me 60000 3 200000", reply: "3 0", after: same, again: "3 0",
	},
	{
		name: "an owner key that holds no string refuses", before: "owner [me] 30s, count 2 30s",
		call: "me 60000 3 200000", reply: "2 0", after: same,
	},
	{
		name: "a count key that holds no string is named, nothing is written", before: "owner me 30s, count [x] 30s, counter 5 100s",
		call: "me 60000 2 200000", reply: "error WRONGTYPE count", after: same,
	},
}

var reenterFullCases = []scriptCase{
	{
		name: "the second level fails, nothing is written", before: "owner me 30s, counter 5 100s",
		call: "me 60000 2 200000", reply: "error OOM", after: same,
	},
	{
		name: "a further level fails, nothing is written", before: "owner me 30s, count 2 30s, counter 5 100s",
		call: "me 60000 3 200000", reply: "error OOM", after: same,
	},
	{name: "another owner still refuses", before: "owner other 30s", call: "me 60000 2 200000", reply: "2 0", after: same},
	{name: "an absent owner still refuses", call: "me 60000 2 200000", reply: "3 0", after: ""},
}

// renew: value, lease, set or lengthen.
var renewCases = []scriptCase{
	{
		name: "set lengthens owner and count", before: "owner me 30s, count 2 30s, counter 5 100s",
		call: "me 60000 set", reply: "1 0", after: "owner me 60s, count 2 60s, counter 5 100s", again: "1 0",
	},
	{
		name: "set shortens owner and count", before: "owner me 100s, count 2 100s",
		call: "me 60000 set", reply: "1 0", after: "owner me 60s, count 2 60s", again: "1 0",
	},
	{
		name: "lengthen lengthens owner and count", before: "owner me 30s, count 2 30s",
		call: "me 60000 lengthen", reply: "1 0", after: "owner me 60s, count 2 60s", again: "1 0",
	},
	{
		name: "lengthen never shortens", before: "owner me 100s, count 2 100s",
		call: "me 60000 lengthen", reply: "1 0", after: same, again: "1 0",
	},
	{
		name: "lengthen compares each key, a shorter count", before: "owner me 100s, count 2 30s",
		call: "me 60000 lengthen", reply: "1 0", after: "owner me 100s, count 2 60s",
	},
	{
		name: "lengthen compares each key, a shorter owner", before: "owner me 30s, count 2 100s",
		call: "me 60000 lengthen", reply: "1 0", after: "owner me 60s, count 2 100s",
	},
	{
		name: "keys without a TTL get one", before: "owner me -, count 2 -",
		call: "me 60000 lengthen", reply: "1 0", after: "owner me 60s, count 2 60s",
	},
	{
		name: "a missing count is no loss and is not made", before: "owner me 30s",
		call: "me 60000 set", reply: "1 0", after: "owner me 60s",
	},
	{
		name: "a count that is not named is left alone", before: "owner me 30s, count 2 30s", keys: "owner",
		call: "me 60000 set", reply: "1 0", after: "owner me 60s, count 2 30s",
	},
	{
		name: "set leaves another owner alone", before: "owner other 30s, count 2 30s",
		call: "me 60000 set", reply: "2 0", after: same, again: "2 0",
	},
	{
		name: "lengthen leaves another owner alone", before: "owner other 30s, count 2 30s",
		call: "me 60000 lengthen", reply: "2 0", after: same, again: "2 0",
	},
	{
		name: "an absent owner stays absent, a stale count is left alone", before: "count 2 30s",
		call: "me 60000 set", reply: "3 0", after: same, again: "3 0",
	},
	{
		name: "an owner key that holds no string is left alone", before: "owner [me] 30s",
		call: "me 60000 lengthen", reply: "2 0", after: same,
	},
}

var renewFullCases = renewCases

// touch: least TTL.
var touchCases = []scriptCase{
	{name: "a counter is lengthened", before: "counter 5 100s", call: "200000", reply: "1 0", after: "counter 5 200s", again: "1 0"},
	{name: "a counter is never shortened", before: "counter 5 500s", call: "200000", reply: "1 0", after: same, again: "1 0"},
	{name: "a counter without a TTL gets one", before: "counter 5 -", call: "200000", reply: "1 0", after: "counter 5 200s"},
	{name: "a missing counter is not made", before: "owner me 30s", call: "200000", reply: "3 0", after: same, again: "3 0"},
	{name: "whatever the counter holds is kept", before: "counter [x] 100s", call: "200000", reply: "1 0", after: "counter [x] 200s"},
}

var touchFullCases = touchCases

// status: value.
var statusCases = []scriptCase{
	{name: "an owner is told what is left", before: "owner me 30s, count 2 30s", call: "me", reply: "1 ~30s", after: same, again: "1 ~30s"},
	{name: "an owner without a TTL is told so", before: "owner me -", call: "me", reply: "1 -1", after: same},
	{name: "another owner is told as such", before: "owner other 30s", call: "me", reply: "2 0", after: same},
	{name: "an absent owner is told as such", before: "count 2 30s", call: "me", reply: "3 0", after: same},
	{name: "an owner key that holds no string is another's", before: "owner [me] 30s", call: "me", reply: "2 0", after: same},
}
