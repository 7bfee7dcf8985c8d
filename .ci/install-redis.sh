#!/usr/bin/env bash
# Makes sure that redis-server is on the PATH; does nothing if it is.
#
# The tests start servers of their own, so the package must start no service:
# for the time of the install a policy-rc.d forbids it (exit code 101), and the
# machine's own policy, if it has one, is put back afterwards.
set -euo pipefail

if command -v redis-server >/dev/null; then
	exit 0
fi
if ! command -v apt-get >/dev/null; then
	echo "redis-server (7.0 or later) is missing, and there is no apt-get to install it with." >&2
	echo "Install it with this system's package manager (Fedora: redis, Homebrew: redis)." >&2
	exit 1
fi

sudo=""
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null; then
		echo "redis-server is missing; as root, run: apt-get install redis-server" >&2
		exit 1
	fi
	sudo="sudo"
fi

policy=/usr/sbin/policy-rc.d
saved=$policy.before-redis-install

restore() {
	$sudo rm -f "$policy"
	if [ -e "$saved" ]; then
		$sudo mv "$saved" "$policy"
	fi
}
trap restore EXIT
if [ -e "$policy" ]; then
	$sudo mv "$policy" "$saved"
fi
printf '#!/bin/sh\nexit 101\n' | $sudo tee "$policy" >/dev/null
$sudo chmod 755 "$policy"

$sudo apt-get update
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends redis-server
