#!/usr/bin/env bash
# Man pages, completions and scripts for the packages, into .release/: the same for the
# same commit, so gzip keeps neither name nor time, and the scripts, whose time and mode
# an apk keeps, are as old as the commit.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

rm -rf .release
mkdir -p .release/completions
CGO_ENABLED=0 go build -trimpath -o .release/dlockctl ./cmd/dlockctl
.release/dlockctl docs man .release/man >/dev/null
gzip -9n .release/man/*.1
.release/dlockctl completion bash >.release/completions/dlockctl.bash
.release/dlockctl completion zsh >.release/completions/_dlockctl
.release/dlockctl completion fish >.release/completions/dlockctl.fish
.release/dlockctl completion powershell >.release/completions/dlockctl.ps1
rm .release/dlockctl
install -m 0755 deploy/package/postinstall.sh deploy/package/postremove.sh .release/
touch -d "@$(git show -s --format=%ct HEAD)" .release/post*.sh
