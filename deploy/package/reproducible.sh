#!/usr/bin/env bash
# Builds the released binary twice, in two folders, under two users' homes, at two
# times and from two caches, and wants one hash. One of the caches is the caller's, the
# other begins empty.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
scratch="$(mktemp -d)"
trap 'chmod -R u+w "$scratch"; rm -rf "$scratch"' EXIT

build() { # build NAME TIME ZONE CACHE: a clone of its own, with a home and a name of its own
  git clone -q --no-hardlinks . "$scratch/$1/source/of/$1"
  (
    cd "$scratch/$1/source/of/$1"
    git config user.name "$1"
    find . -path ./.git -prune -o -type f -exec touch -d "$2" {} +
    HOME="$scratch/$1/home" USER="$1" LOGNAME="$1" TZ="$3" GOCACHE="$4" GOFLAGS=-mod=readonly GOMODCACHE="$modules" \
      CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o dlockctl ./cmd/dlockctl
    sha256sum <dlockctl
  )
}
modules="$(go env GOMODCACHE)"
first="$(build one '2020-02-29 12:00' UTC "$(go env GOCACHE)")"
second="$(build the-other '2031-10-26 02:30' Asia/Tokyo "$scratch/cache")"
echo "$first"
[ "$first" = "$second" ] || { echo "built again elsewhere it is $second" >&2; exit 1; }
