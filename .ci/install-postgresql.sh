#!/usr/bin/env bash
# Makes sure that there is a PostgreSQL server to run; does nothing if there is.
#
# The tests start servers of their own, from the programs that are on the PATH or
# where Debian has them, so the package must start no service and make no cluster: for
# the time of the install a policy-rc.d forbids the first (exit code 101) and a
# createcluster.conf the second; what the machine has of both is put back afterwards.
set -euo pipefail

if command -v initdb >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; then
	exit 0
fi
if ! command -v apt-get >/dev/null; then
	echo "A PostgreSQL server (initdb and postgres) is missing, and there is no apt-get to install it with." >&2
	echo "Install it with this system's package manager (Fedora: postgresql-server, Homebrew: postgresql)." >&2
	exit 1
fi

sudo=""
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null; then
		echo "PostgreSQL is missing; as root, run: apt-get install postgresql" >&2
		exit 1
	fi
	sudo="sudo"
fi

policy=/usr/sbin/policy-rc.d
saved=$policy.before-postgresql-install
clusters=/etc/postgresql-common/createcluster.d
clusterconf=$clusters/zz-no-cluster-for-tests.conf

restore() {
	$sudo rm -f "$policy" "$clusterconf"
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
$sudo mkdir -p "$clusters"
echo 'create_main_cluster = false' | $sudo tee "$clusterconf" >/dev/null

$sudo apt-get update
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends postgresql
