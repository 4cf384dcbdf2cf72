#!/bin/sh
# Bundles the library from a checkout of its own, with its PostgreSQL client, into one
# file that Node runs, and prints where that is: test/syncguard/peer.sh CHECKOUT
set -eu

[ -f "${1:-}/postgres/index.ts" ] || {
	echo "peer.sh: ${1:-no folder} is no checkout of SyncGuard: there is no postgres/index.ts; git clone the library and name its folder" >&2
	exit 1
}
library="$(cd "$1" && pwd)"
here="$(cd "$(dirname "$0")" && pwd)"
made="${XDG_CACHE_HOME:-$HOME/.cache}/dlockctl/syncguard-peer"
mkdir -p "$made"
cd "$made"
npm install --silent --no-save postgres@3.4.9 esbuild@0.28.2 >&2
NODE_PATH="$made/node_modules" node_modules/.bin/esbuild "$here/peer.mjs" --bundle --platform=node --format=esm \
	--alias:syncguard/postgres="$library/postgres/index.ts" --log-level=warning --outfile=peer.bundle.mjs >&2
echo "$made/peer.bundle.mjs"
