package redislock_test

// release: value, TTL of the mark, quiet time.
var releaseCases = []scriptCase{
	{
		name: "the last level of a hold without a count frees the lock", before: "owner me 30s, counter 5 100s", keys: "owner room",
		call: "me 0 0", reply: "1 0", after: "counter 5 100s", again: "3 0",
	},
	{
		name: "the last level deletes the count as well", before: "owner me 30s, count 2 30s, counter 5 100s", keys: "owner room count",
		call: "me 0 0", reply: "1 0", after: "counter 5 100s", again: "3 0",
	},
	{
		name: "the last level deletes a count of any type", before: "owner me 30s, count [x] 30s", keys: "owner room count",
		call: "me 0 0", reply: "1 0", after: "", again: "3 0",
	},
	{
		name: "the last level of a hold whose count is gone frees the lock", before: "owner me 30s", keys: "owner room count",
		call: "me 0 0", reply: "1 0", after: "", again: "3 0",
	},
	{
		name: "the mark is left with the last level", before: "owner me 30s, count 2 30s, counter 5 100s",
		call: "me 80000 0", reply: "1 0", after: "mark 1 80s, counter 5 100s", again: "3 0",
	},
	{
		name: "the mark is left where there is no owner", before: "counter 5 100s",
		call: "me 80000 0", reply: "3 0", after: "mark 1 80s, counter 5 100s", again: "3 0",
	},
	{
		name: "the mark is left and another owner untouched", before: "owner other 30s, count 2 30s",
		call: "me 80000 0", reply: "2 0", after: "owner other 30s, count 2 30s, mark 1 80s", again: "2 0",
	},
	{
		name: "without a mark's TTL none is left", before: "owner me 30s",
		call: "me 0 0", reply: "1 0", after: "",
	},
	{
		name: "another owner is untouched", before: "owner other 30s, count 2 30s", keys: "owner room count",
		call: "me 0 0", reply: "2 0", after: same, again: "2 0",
	},
	{
		name: "an absent owner, a stale count is left alone", before: "count 2 30s", keys: "owner room count",
		call: "me 0 0", reply: "3 0", after: same, again: "3 0",
	},
	{
		name: "an owner key that holds no string is untouched", before: "owner [me] 30s, count 2 30s", keys: "owner room count",
		call: "me 0 0", reply: "2 0", after: same,
	},
}

// leave: value, depth that is left.
var leaveCases = []scriptCase{
	{
		name: "a partial release keeps owner and TTL, and counts once", before: "owner me 30s, count 3 30s, counter 5 100s",
		call: "me 2", reply: "1 3", after: "owner me 30s, count 2 30s, counter 5 100s", again: "1 2",
	},
	{
		name: "a partial release to one level deletes the count only", before: "owner me 30s, count 2 30s",
		call: "me 1", reply: "1 2", after: "owner me 30s", again: "1 -1",
	},
	{
		name: "a partial release never deletes the owner, the count is gone", before: "owner me 30s",
		call: "me 1", reply: "1 -1", after: same, again: "1 -1",
	},
	{
		name: "a partial release writes a missing count anew, with the owner's TTL", before: "owner me 30s",
		call: "me 2", reply: "1 -1", after: "owner me 30s, count 2 30s", again: "1 2",
	},
	{
		name: "a partial release reports a count that was lowered elsewhere", before: "owner me 30s, count 1 30s",
		call: "me 2", reply: "1 1", after: "owner me 30s, count 2 30s", again: "1 2",
	},
	{
		name: "a partial release replaces a count of any type", before: "owner me 30s, count [x] 60s",
		call: "me 2", reply: "1 -1", after: "owner me 30s, count 2 30s", again: "1 2",
	},
	{
		name: "another owner is untouched by a partial release", before: "owner other 30s, count 3 30s",
		call: "me 2", reply: "2 0", after: same, again: "2 0",
	},
}

var releaseFullCases = []scriptCase{
	{
		name: "the last level frees the lock", before: "owner me 30s, count 2 30s", keys: "owner room count",
		call: "me 0 0", reply: "1 0", after: "", again: "3 0",
	},
	{
		name: "the lock is freed, the mark is still owed", before: "owner me 30s, count 2 30s",
		call: "me 80000 0", reply: "7 1", after: "", again: "7 3",
	},
	{
		name: "another owner is untouched, the mark is still owed", before: "owner other 30s, count 2 30s",
		call: "me 80000 0", reply: "7 2", after: same,
	},
	{name: "an absent owner is told as such, the mark is still owed", call: "me 80000 0", reply: "7 3", after: ""},
}

var leaveFullCases = []scriptCase{
	{
		name: "a partial release to one level", before: "owner me 30s, count 2 30s",
		call: "me 1", reply: "1 2", after: "owner me 30s", again: "1 -1",
	},
	{
		name: "a partial release is answered and the hold's next call settles the count", before: "owner me 30s, count 3 30s",
		call: "me 2", reply: "1 3", after: same, again: "1 3",
	},
}

// unlock: value, depth it is believed to have.
var unlockCases = []scriptCase{
	{
		name: "depth 0 only tells the depth", before: "owner me 30s, count 3 30s, counter 5 100s",
		call: "me 0", reply: "5 3", after: same, again: "5 3",
	},
	{
		name: "depth 0 of a hold without a count tells 1", before: "owner me 30s",
		call: "me 0", reply: "5 1", after: same, again: "5 1",
	},
	{
		name: "a level of several is taken off once, the TTL stays", before: "owner me 30s, count 3 30s, counter 5 100s",
		call: "me 3", reply: "1 2", after: "owner me 30s, count 2 30s, counter 5 100s", again: "5 2",
	},
	{
		name: "from 2 levels it writes 1, as the published version does", before: "owner me 30s, count 2 30s",
		call: "me 2", reply: "1 1", after: "owner me 30s, count 1 30s", again: "5 1",
	},
	{
		name: "the last level of a published hold deletes both keys", before: "owner me 30s, count 1 30s, counter 5 100s",
		call: "me 1", reply: "1 0", after: "counter 5 100s", again: "3 0",
	},
	{
		name: "the last level of a hold without a count frees the lock", before: "owner me 30s, counter 5 100s",
		call: "me 1", reply: "1 0", after: "counter 5 100s", again: "3 0",
	},
	{
		name: "a depth that is too small does nothing", before: "owner me 30s, count 3 30s",
		call: "me 2", reply: "5 3", after: same,
	},
	{
		name: "a depth that is too large does nothing", before: "owner me 30s, count 2 30s",
		call: "me 3", reply: "5 2", after: same,
	},
	{
		name: "depth 1 does not free a hold of two levels", before: "owner me 30s, count 2 30s",
		call: "me 1", reply: "5 2", after: same,
	},
	{
		name: "a count below 1 is one level", before: "owner me 30s, count -2 30s",
		call: "me 1", reply: "1 0", after: "", again: "3 0",
	},
	{
		name: "a count that is no number is one level", before: "owner me 30s, count abc 30s",
		call: "me 0", reply: "5 1", after: same,
	},
	{
		name: "another owner is untouched", before: "owner other 30s, count 2 30s",
		call: "me 2", reply: "2 0", after: same, again: "2 0",
	},
	{
		name: "an absent owner, a stale count is left alone", before: "count 2 30s",
		call: "me 2", reply: "3 0", after: same, again: "3 0",
	},
	{
		name: "an owner key that holds no string is untouched", before: "owner [me] 30s, count 2 30s",
		call: "me 2", reply: "2 0", after: same,
	},
	{
		name: "a count key that holds no string is named", before: "owner me 30s, count [x] 30s",
		call: "me 1", reply: "error WRONGTYPE count", after: same,
	},
}

var unlockFullCases = []scriptCase{
	{
		name: "the last level frees the lock", before: "owner me 30s, count 1 30s",
		call: "me 1", reply: "1 0", after: "", again: "3 0",
	},
	{
		name: "a level of several is refused and stays", before: "owner me 30s, count 3 30s",
		call: "me 3", reply: "error OOM", after: same,
	},
	{name: "depth 0 still tells", before: "owner me 30s, count 3 30s", call: "me 0", reply: "5 3", after: same},
}
