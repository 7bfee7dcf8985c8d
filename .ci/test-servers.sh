#!/usr/bin/env bash
# Runs the tests on the servers of fetch-servers.sh, one server after another, and
# prints a table at the end. Arguments are further ones of go test (-run …); $SERVERS
# names the servers, by default all.
#
# The table has the version that the servers of the tests gave of themselves, each
# at its start: a run in which another server was started, or none, has failed.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# shellcheck disable=SC2086 # one word a server
./.ci/fetch-servers.sh ${SERVERS:-} >"$work/servers"
go test -race -run '^$' ./ ./fence ./internal/... >/dev/null # builds it all, on all processors

failed=0
row() { printf '%-12s %-16s %8s %8s %8s %8s  %s\n' "$@" >>"$work/table"; }
row server version started passed failed skipped ""

while read -r name dir; do
	echo "== $name"
	versions=$work/versions
	: >"$versions"
	verdict=ok
	PATH=$dir:$PATH REDISTEST_VERSIONS=$versions \
		go run ./internal/testcount -race -count=1 -timeout 20m -p 1 -parallel 4 "$@" ./ ./fence ./internal/... \
		</dev/null | tee "$work/out" || verdict=FAILED

	version=$(sort -u "$versions" | paste -s -d,)
	started=$(wc -l <"$versions")
	# redis-8.0 has to be "redis 8.0.…", and nothing else beside it.
	case $version in
	*,* | "") verdict="FAILED: not $name alone" ;;
	"${name/-/ }."*) ;;
	*) verdict="FAILED: not $name" ;;
	esac
	[ "$verdict" = ok ] || failed=1
	counts=$(sed -nE '$s/^([0-9]+) passed, ([0-9]+) failed, ([0-9]+) skipped$/\1 \2 \3/p' "$work/out")
	# shellcheck disable=SC2086 # three words
	row "$name" "${version:-none}" "$started" ${counts:-? ? ?} "$verdict"
done <"$work/servers"

echo
cat "$work/table"
exit "$failed"
