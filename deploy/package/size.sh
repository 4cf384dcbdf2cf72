#!/usr/bin/env bash
# Compares the released linux/amd64 binary with the last row of the table of sizes
# in docs/dependencies.md: more than 5 % above it needs a new row that says why.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

GOOS=linux GOARCH=amd64 CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$scratch/dlockctl" ./cmd/dlockctl
now="$(stat -c %s "$scratch/dlockctl")"
budget="$(sed -n '/^## Size/,$s/^| \([0-9]\{1,\}\) |.*/\1/p' docs/dependencies.md | tail -1)"
[ -n "$budget" ] || { echo "docs/dependencies.md has no table of sizes" >&2; exit 1; }
echo "$now bytes, the table says $budget"
if ((now * 100 > budget * 105)); then
  echo "the binary has grown by more than 5 %: add a row to \"Size\" in docs/dependencies.md that says why" >&2
  exit 1
fi
