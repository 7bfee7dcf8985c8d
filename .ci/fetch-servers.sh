#!/usr/bin/env bash
# Fetches newer Redis-compatible servers from Debian's archive, beside the system:
#
#	.ci/fetch-servers.sh [NAME…]   # of redis-8.0, valkey-8.1, valkey-8.0; default: all
#
# For each it prints a line "NAME FOLDER". The folder holds nothing but a
# redis-server, a wrapper that starts the fetched server with the libraries of its
# own release: put it first on the PATH. What was fetched once is kept, in
# .cache/servers below the repository or in $XDG_CACHE_HOME/redislock-servers.
#
# Nothing is installed and nothing of the system is changed. apt runs on folders of
# its own; from the machine it takes the address of the Debian mirror, the way
# there (proxy, authentication) and the archive keyring, which checks what it got.
set -euo pipefail

# NAME, PACKAGE (with -server and -tools), VERSION wanted, and the suites that have it.
servers="
redis-8.0   redis   8.0  trixie
valkey-8.1  valkey  8.1  trixie
valkey-8.0  valkey  8.0  bookworm-backports bookworm
"

root=$(cd "$(dirname "$0")/.." && pwd)
cache=${XDG_CACHE_HOME:+$XDG_CACHE_HOME/redislock-servers}
cache=${cache:-$root/.cache/servers}
unfinished=
trap 'rm -rf ${unfinished:+"$unfinished"}' EXIT
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

die() {
	echo "fetch-servers: $*" >&2
	exit 1
}

# mirrors prints the addresses of the machine's package sources that have a
# component main, in both of apt's formats.
mirrors() {
	local f
	for f in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
		[ -e "$f" ] || continue
		sed -e 's/#.*//' -e 's/\[[^]]*\]//' "$f" |
			awk '$1 == "deb" { for (i = 4; i <= NF; i++) if ($i == "main") print $2 }'
	done
	for f in /etc/apt/sources.list.d/*.sources; do
		[ -e "$f" ] || continue
		sed -e '/^#/d' "$f" | awk -v RS= -v FS='\n' '{
			split("", field); name = ""
			for (i = 1; i <= NF; i++) {
				if (match($i, /^[A-Za-z-]+:/)) {
					name = tolower(substr($i, 1, RLENGTH - 1)); $i = substr($i, RLENGTH + 1)
				}
				field[name] = field[name] " " $i
			}
			if (tolower(field["enabled"]) ~ /no|false|off|0/) next
			if (" " field["types"] " " !~ / deb /) next
			if (" " field["components"] " " !~ / main /) next
			n = split(field["uris"], uri, " ")
			for (i = 1; i <= n; i++) print uri[i]
		}'
	done
}

# update has apt read the suites from the first of the machine's mirrors that has
# them, signed by Debian; others have other suites or other signatures.
update() { # WORK SUITE…
	local work=$1 mirror suite
	shift
	mkdir -p "$work"/state/lists/partial "$work"/cache/archives/partial "$work"/debs
	: >"$work/state/status" # as if nothing were installed
	cat >"$work/apt.conf" <<-CONF
		Dir::State "$work/state";
		Dir::State::status "$work/state/status";
		Dir::Cache "$work/cache";
		Dir::Cache::pkgcache "pkgcache.bin";
		Dir::Etc::sourcelist "$work/sources.list";
		Dir::Etc::sourceparts "/dev/null";
		Dir::Etc::preferences "/dev/null";
		Dir::Etc::preferencesparts "/dev/null";
		Acquire::Languages "none";
		Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
		Acquire::Retries "3";
		APT::Sandbox::User "root";
		APT::Update::Error-Mode "any";
		#clear APT::Update::Pre-Invoke;
		#clear APT::Update::Post-Invoke;
		#clear APT::Update::Post-Invoke-Success;
	CONF
	for mirror in $(mirrors | awk '!seen[$0]++'); do
		: >"$work/sources.list"
		for suite in "$@"; do
			echo "deb [signed-by=$keyring] $mirror $suite main" >>"$work/sources.list"
		done
		if apt-get -qq -c "$work/apt.conf" update >"$work/log" 2>&1; then
			return
		fi
	done
	cat "$work/log" >&2 2>/dev/null || true
	die "no package source of this machine has Debian's $*"
}

# packages names the server, its tools, and the libraries that these need, the C
# library among them; what else they depend on serves an installation.
packages() { # WORK PACKAGE
	apt-cache -c "$1/apt.conf" depends --recurse --no-recommends --no-suggests --no-conflicts \
		--no-breaks --no-replaces --no-enhances "$2-server" |
		awk -v first="$2-server" -v tools="$2-tools" '
			/^[^ <]/ { of = $1; next }
			$1 ~ /Depends:$/ && ($2 ~ /^lib/ || $2 ~ /^lua-/ || $2 ~ /^zlib/ || $2 == tools) { needs[of] = needs[of] " " $2 }
			END {
				queue[1] = first; known[first]; n = 1
				for (i = 1; i <= n; i++) {
					print queue[i]
					m = split(needs[queue[i]], next_, " ")
					for (j = 1; j <= m; j++) if (!(next_[j] in known)) { known[next_[j]]; queue[++n] = next_[j] }
				}
			}'
}

# wrap writes the redis-server that starts the extracted one by the extracted
# loader. The loader does not look into the system's cache of libraries, so that a
# missing one is an error and not a mixture.
wrap() { # WORK PACKAGE
	local work=$1 loader libs missing
	loader=$(find "$work/root" -path '*/lib*/ld-linux*.so.*' -printf '%P\n' | sort | head -n 1)
	[ -n "$loader" ] || die "libc6 has no loader"
	[ -e "$work/root/usr/bin/$2-server" ] || die "$2-server has no usr/bin/$2-server"
	# lib/TRIPLET and usr/lib/TRIPLET, not what has its plugins further below.
	libs=$(cd "$work/root" && find . -path '*/lib/*/lib*.so.*' -printf '$root/%P\n' | sed 's|/[^/]*$||' | grep -Ex '\$root(/usr)?/lib/[^/]+' | sort -u | paste -s -d:)
	mkdir "$work/bin"
	cat >"$work/bin/redis-server" <<-WRAPPER
		#!/bin/sh
		root=\${0%/*}/../root
		exec "\$root/$loader" --inhibit-cache --library-path "$libs" "\$root/usr/bin/$2-server" "\$@"
	WRAPPER
	chmod 755 "$work/bin/redis-server"
	# The same with --list says where each library comes from.
	sed 's/^exec "[^"]*"/& --list/' "$work/bin/redis-server" >"$work/bin/list"
	missing=$({ sh "$work/bin/list" || true; } 2>&1 | awk -v own="$work/" '!/=>/ && !/linux-vdso/ || /=>/ && index($3, own) != 1')
	rm "$work/bin/list"
	[ -z "$missing" ] || die "libraries of $2-server were not fetched:"$'\n'"$missing"
}

fetch() { # NAME PACKAGE VERSION SUITE…
	local name=$1 package=$2 version=$3 work said deb names
	shift 3
	if [ ! -x "$cache/$name/bin/redis-server" ]; then
		command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || die "needs apt-get and dpkg-deb"
		[ -e "$keyring" ] || die "needs $keyring (package debian-archive-keyring)"
		mkdir -p "$cache"
		work=$(mktemp -d "$cache/$name.XXXXXX")
		unfinished=$work
		update "$work" "$@"
		names=$(packages "$work" "$package")
		# shellcheck disable=SC2086 # one word a package
		(cd "$work/debs" && apt-get -qq -c "$work/apt.conf" download $names >&2)
		for deb in "$work"/debs/*.deb; do
			dpkg-deb -x "$deb" "$work/root"
		done
		wrap "$work" "$package"
		rm -rf "$work/state" "$work/cache" "$work/debs" "$work/log" "$work/apt.conf" "$work/sources.list"
		chmod 755 "$work"
		rm -rf "${cache:?}/$name"
		mv "$work" "$cache/$name" # complete, or not there
		unfinished=
	fi
	said=$("$cache/$name/bin/redis-server" --version)
	case $said in
	*" v=$version."*) ;;
	*) die "$name: the archive has another version: $said" ;;
	esac
	echo "$name $cache/$name/bin"
}

for name in "$@"; do
	[[ "$servers" == *$'\n'"$name "* ]] || die "no such server: $name"
done
while read -r name package version suites; do
	[ -n "$name" ] || continue
	if [ $# -eq 0 ] || [[ " $* " == *" $name "* ]]; then
		# shellcheck disable=SC2086 # one word a suite
		fetch "$name" "$package" "$version" $suites
	fi
done <<<"$servers"
