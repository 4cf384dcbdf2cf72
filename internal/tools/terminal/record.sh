#!/usr/bin/env bash
# Records the sessions of docs/assets anew: the story of `dlockctl demo`, and one screen
# of `dlockctl top` on two instances of its own, with a handful of people at work on
# them. Needs tmux; draws at the end. usage: internal/tools/terminal/record.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
command -v tmux >/dev/null || { echo "tmux is missing: install Debian's package tmux" >&2; exit 1; }
postgres="$(test/postgres.sh)"
eval "$postgres"
scratch="$(mktemp -d)"
mkdir "$scratch/state"
chmod 755 "$scratch" "$scratch/state" # PostgreSQL of root's runs as another user
export DLOCKCTL_STATE_DIR="$scratch/state" DLOCKCTL_PG_BIN="$DLOCKCTL_TEST_PG16" TERM=xterm
terminal="tmux -L dlockctl-record"
workers=()
cleanup() {
  $terminal kill-server 2>/dev/null || true
  ((${#workers[@]})) && kill "${workers[@]}" 2>/dev/null
  wait
  dlockctl dev destroy --yes >/dev/null 2>&1 || true
  rm -rf "$scratch"
}
trap cleanup EXIT

CGO_ENABLED=0 go build -trimpath -o "$scratch/dlockctl" ./cmd/dlockctl
CGO_ENABLED=0 go build -o "$scratch/terminal" ./internal/tools/terminal
export PATH="$scratch:$PATH"

terminal -record docs/assets/demo.cast -as 'dlockctl demo' -- dlockctl demo --color always

# work OWNER KEY HOLD: acquires, holds and releases, for as long as it is let.
work() {
  local token
  while true; do
    token="$(dlockctl acquire "$2" --owner "$1" --ttl 8s --wait 20s --timeout 30s -o name 2>/dev/null)" || continue
    sleep "$3"
    dlockctl release "$2" --token "$token" >/dev/null 2>&1 || true
  done
}
dlockctl dev up >/dev/null 2>&1
dlockctl acquire report:month-end --owner batch-7 --ttl 12h >/dev/null
dlockctl acquire batch:statements --owner batch-2 --ttl 15m >/dev/null
dlockctl acquire index:rebuild --owner erin@ops --ttl 20s >/dev/null
for n in 1 2 3; do work "worker-$n" account:17 0.1 & workers+=("$!"); done
for n in 4 5 6 7; do work "worker-$n" "account:4$n" 3 & workers+=("$!"); done

$terminal new-session -d -x 80 -y 24 "dlockctl top"
sleep 45
$terminal capture-pane -e -p | sed 's/[[:space:]]*$//' >docs/assets/top.ansi
$terminal send-keys q
"$scratch/terminal" -write
