package redislock_test

// renew_many: value, lease and number of keys, for each of two holds.
var renewManyCases = []scriptCase{
	{
		name: "all are lengthened, each by its own lease", before: "owner me 30s, count 2 30s, owner2 you 30s",
		call: "me 60000 2 you 90000 1", reply: "1 1", after: "owner me 60s, count 2 60s, owner2 you 90s", again: "1 1",
	},
	{
		name: "no lease is shortened, compared per key", before: "owner me 100s, count 2 30s, owner2 you 100s",
		call: "me 60000 2 you 60000 1", reply: "1 1", after: "owner me 100s, count 2 60s, owner2 you 100s", again: "1 1",
	},
	{
		name: "keys without a TTL get one", before: "owner me -, count 2 -, owner2 you -",
		call: "me 60000 2 you 60000 1", reply: "1 1", after: "owner me 60s, count 2 60s, owner2 you 60s",
	},
	{
		name: "a missing count is no loss and is not made", before: "owner me 30s, owner2 you 30s",
		call: "me 60000 2 you 60000 1", reply: "1 1", after: "owner me 60s, owner2 you 60s",
	},
	{
		name: "the first is another's", before: "owner other 30s, count 2 30s, owner2 you 30s",
		call: "me 60000 2 you 60000 1", reply: "2 1", after: "owner other 30s, count 2 30s, owner2 you 60s", again: "2 1",
	},
	{
		name: "the second is another's", before: "owner me 30s, count 2 30s, owner2 other 30s",
		call: "me 60000 2 you 60000 1", reply: "1 2", after: "owner me 60s, count 2 60s, owner2 other 30s",
	},
	{
		name: "the first has vanished, and stays so", before: "count 2 30s, owner2 you 30s",
		call: "me 60000 2 you 60000 1", reply: "3 1", after: "count 2 30s, owner2 you 60s",
	},
	{
		name: "the second has vanished", before: "owner me 30s, count 2 30s",
		call: "me 60000 2 you 60000 1", reply: "1 3", after: "owner me 60s, count 2 60s",
	},
	{
		name: "the first owner key holds no string", before: "owner [me] 30s, owner2 you 30s",
		call: "me 60000 2 you 60000 1", reply: "2 1", after: "owner [me] 30s, owner2 you 60s",
	},
	{
		name: "the second owner key holds no string", before: "owner me 30s, count 2 30s, owner2 [you] 30s",
		call: "me 60000 2 you 60000 1", reply: "1 2", after: "owner me 60s, count 2 60s, owner2 [you] 30s",
	},
	{
		name: "what cannot be told of the first is the error", before: "owner me 30s, owner2 you 30s",
		call: "me soon 2 you 60000 1", reply: "error ERR", after: same,
	},
	{
		name: "what cannot be told of another is left to be asked alone", before: "owner me 30s, owner2 you 30s",
		call: "me 60000 2 you soon 1", reply: "1 0", after: "owner me 60s, owner2 you 30s",
	},
}

// touch_many: least TTLs.
var touchManyCases = []scriptCase{
	{
		name: "each by its own TTL", before: "counter 5 100s, counter2 6 100s",
		call: "200000 300000", reply: "1 1", after: "counter 5 200s, counter2 6 300s", again: "1 1",
	},
	{name: "a counter is never shortened", before: "counter 5 500s, counter2 6 100s", call: "200000 200000", reply: "1 1", after: "counter 5 500s, counter2 6 200s"},
	{name: "a counter without a TTL gets one", before: "counter 5 -, counter2 6 -", call: "200000 200000", reply: "1 1", after: "counter 5 200s, counter2 6 200s"},
	{name: "a missing counter is not made", before: "counter2 6 100s", call: "200000 200000", reply: "3 1", after: "counter2 6 200s", again: "3 1"},
}

// touchManyFullCases has what miniredis does not refuse: a TTL beyond all bounds.
var touchManyFullCases = append([]scriptCase{
	{name: "what cannot be told costs nobody else", before: "counter 5 100s, counter2 6 100s", call: "99999999999999999999 200000", reply: "0 1", after: "counter 5 100s, counter2 6 200s"},
}, touchManyCases...)
