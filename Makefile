GO           ?= go
GOLANGCI     := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GOFUMPT      := mvdan.cc/gofumpt@v0.12.0

DURATION   ?= 10m
OPERATIONS ?= 100000
SEED       ?= 0

.PHONY: test faults test-servers fence-sql jepsen checker mutants verify bench bench-renewal bench-micro bench-quick quickstart deps-test

## test: every test against every backend, with the race detector. A skipped test fails it.
## All is built first, on all processors; the packages then run one by one, because
## short leases are lost on a machine that is busy with something else.
test: deps-test
	$(GO) vet ./...
	$(GO) test -race -run '^$$' ./... >/dev/null
	$(GO) run ./internal/testcount -race -count=1 -timeout 20m -p 1 -parallel 6 ./...

## faults: what the lock does under faults, alone, with a line per row.
faults: deps-test
	$(GO) test -race -run '^$$' . >/dev/null
	$(GO) run ./internal/testcount -rows -race -count=1 -timeout 20m -parallel 4 -run '^Test' \
		-skip '^(TestContract|TestScripts)$$|API|Constants|Example|Exported|Metrics|Readme|Sentinel|Texts' .

## test-servers: the tests on newer servers, which are fetched beside the system (Debian
## only); ends with a table. ARGS are further arguments of go test, SERVERS picks some.
test-servers:
	@./.ci/test-servers.sh $(ARGS)

## fence-sql: package fence on PostgreSQL and SQLite, in a module of its own, so that users
## build neither driver. The first build takes some minutes. A skipped test fails it.
fence-sql:
	@./.ci/install-postgresql.sh
	cd fence/sqltest && $(GO) vet ./... && $(GO) mod tidy -diff && \
		$(GO) run $(GOLANGCI) run -c ../../.golangci.yml ./... && \
		$(GO) run github.com/go-lynx/lynx-redis-lock/internal/testcount -race -count=1 -timeout 10m ./...

## jepsen: several processes under a nemesis, their history checked, for DURATION and with
## SEED (0: a new one); fewer than OPERATIONS fail it. A history that cannot be is kept,
## with a picture.
jepsen: deps-test
	cd test && $(GO) test -count=1 -timeout 0 -v -run TestHistories . -duration $(DURATION) -seed $(SEED) -operations $(OPERATIONS)

## checker: the tests of the checker, and one minute of jepsen. Without a package argument
## go test shows what the run prints, the seed first.
checker: deps-test
	cd test && $(GO) vet ./... && $(GO) mod tidy -diff && $(GO) run $(GOLANGCI) run -c ../.golangci.yml ./...
	cd test && $(GO) test -race -count=1 ./check ./history ./mutants
	cd test && $(GO) test -race -count=1 -timeout 10m -args -seed=$(SEED)

## mutants: broken copies of the lock, each of which the checker has to report.
mutants: deps-test
	cd test && $(GO) run ./mutants -seed $(SEED)

## verify: what test leaves out: tidiness, linters, formatting and the longer suites.
## Fuzzing is bound by inputs, some 10 s of them: when it is by time, go test may take the
## end for a failure ("context deadline exceeded").
verify: deps-test fence-sql checker bench-quick
	$(GO) mod tidy -diff
	$(GO) run $(GOLANGCI) run ./...
	@unformatted=$$($(GO) run $(GOFUMPT) -l .) && \
		if [ -n "$$unformatted" ]; then echo "not formatted with gofumpt:"; echo "$$unformatted"; exit 1; fi
	$(GO) test -race -count=1 -run '^TestSoak$$' . -soak 2m
	$(GO) test -run '^$$' -fuzz FuzzValidateKey -fuzztime 50000x .
	$(GO) test -run '^$$' -fuzz FuzzLockOptionsValidate -fuzztime 40000x .
	$(GO) test -run '^$$' -fuzz FuzzAppliedKey -fuzztime 30000x ./fence
	$(GO) test -run '^$$' -fuzz FuzzReadFrame -fuzztime 100000x ./internal/redistest

## bench: the lock beside its peers, a quarter of an hour; it writes the speed tables of
## bench/RESULTS.md. ARGS are further arguments: -only 'free locks' runs some of it.
bench: deps-test
	cd bench && $(GO) test -count=1 -timeout 30m -v -run '^TestSpeed$$' . -full -results RESULTS.md $(ARGS)

## bench-renewal: a hundred thousand leases beside others' ways to keep them, a quarter of
## an hour; it writes the renewal tables of bench/RESULTS.md. ARGS: -only standalone, cluster.
bench-renewal: deps-test
	cd bench && $(GO) test -count=1 -timeout 40m -v -run '^TestRenewal$$' . -full -results RESULTS.md $(ARGS)

## bench-micro: the benchmarks beside the code, without the tests.
bench-micro: deps-test
	$(GO) test -run '^$$' -bench . -benchmem ./...

## bench-quick: each of bench and bench-renewal once, as short as can be: they still work.
bench-quick: deps-test
	cd bench && $(GO) vet ./... && $(GO) mod tidy -diff && \
		$(GO) run $(GOLANGCI) run -c ../.golangci.yml ./... && \
		$(GO) run github.com/go-lynx/lynx-redis-lock/internal/testcount -count=1 -timeout 10m -p 1 ./...

## quickstart: a whole Lynx application on an embedded Redis, which checks itself.
quickstart:
	$(GO) run ./examples/quickstart

deps-test:
	@./.ci/install-redis.sh
