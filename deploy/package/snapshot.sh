#!/usr/bin/env bash
# Makes every package without publishing any, and looks into them: the archives
# hold what they should, belong to root and are as old as the commit, and the deb
# installs, runs and goes away again.
# usage: deploy/package/snapshot.sh GORELEASER
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
goreleaser="$1"

# It needs syft, cosign and a container engine for these three.
"$goreleaser" release --snapshot --clean --skip=sbom,sign,docker

fail() { echo "$*" >&2; exit 1; }
one() { # one PATTERN prints the only file that matches
  local found
  mapfile -t found < <(compgen -G "dist/$1")
  [ "${#found[@]}" = 1 ] || fail "dist holds ${#found[@]} files like $1"
  printf '%s' "${found[0]}"
}
holds() { # holds LIST WHAT FILE…
  local list="$1" what="$2" file
  shift 2
  for file in "$@"; do grep -qxF -- "$file" <<<"$list" || fail "$what lacks $file"; done
}

commit="$(TZ=UTC git show -s --date=iso-local --format=%cd HEAD)"
for system in linux darwin; do
  for arch in amd64 arm64; do
    archive="$(one "dlockctl_*_${system}_$arch.tar.gz")"
    holds "$(tar -tzf "$archive")" "$archive" dlockctl LICENSE completions/dlockctl.bash man/dlockctl.1.gz docs/exit-codes.md deploy/systemd/dlockctl@.service
    others="$(TZ=UTC tar --full-time -tvzf "$archive" | grep -v " root/root .* ${commit% *} " || true)"
    [ -z "$others" ] || fail "$archive has files that are not root's, or not of ${commit% *}:"$'\n'"$others"
  done
done
for arch in amd64 arm64; do
  zip="$(one "dlockctl_*_windows_$arch.zip")"
  holds "$(jar --list --file "$zip")" "$zip" dlockctl.exe completions/dlockctl.ps1
  for format in deb rpm apk; do one "dlockctl_*_linux_$arch.$format" >/dev/null; done
done
(cd dist && sha256sum --check --quiet ./*_checksums.txt)
[ "$(wc -l <"$(one 'dlockctl_*_checksums.txt')")" = 12 ] || fail "the list of checksums does not name 4 tar.gz, 2 zip and 6 packages"
cask="$(one "homebrew/Casks/dlockctl.rb")"
for stanza in 'manpage "man/dlockctl.1.gz"' 'bash_completion "completions/dlockctl.bash"'; do
  grep -qF -- "$stanza" "$cask" || fail "$cask lacks $stanza"
done

if [ "$(id -u)" != 0 ] || ! command -v dpkg >/dev/null; then
  echo "the deb was not installed: that needs root on Debian" >&2
  exit 0
fi
! dpkg -s dlockctl >/dev/null 2>&1 || fail "a package dlockctl is installed already; it is not this check's to remove"
! getent passwd dlockctl >/dev/null || fail "a user dlockctl is there already; it is not this check's to remove"
remove() {
  dpkg --purge dlockctl >/dev/null 2>&1 || true
  ! getent passwd dlockctl >/dev/null || userdel dlockctl # the package leaves it
}
trap remove EXIT
dpkg -i "$(one "dlockctl_*_linux_$(dpkg --print-architecture).deb")" >/dev/null
version="$(/usr/bin/dlockctl version)"
echo "$version"
grep -q "$(git rev-parse --short=12 HEAD)" <<<"$version" || fail "the deb's dlockctl does not name its commit"
/usr/bin/dlockctl help exit-codes >/dev/null
# Not in /usr/share/man and /usr/share/doc alone: a slim image leaves those out.
holds "$(dpkg -L dlockctl)" "the deb" /usr/share/bash-completion/completions/dlockctl /usr/share/zsh/vendor-completions/_dlockctl \
  /usr/share/fish/vendor_completions.d/dlockctl.fish /usr/share/man/man1/dlockctl.1.gz /usr/share/man/man1/dlockctl-acquire.1.gz \
  /usr/lib/systemd/system/dlockctl@.service /usr/lib/sysusers.d/dlockctl.conf /etc/dlockctl
bash -c '. /usr/share/bash-completion/completions/dlockctl && complete -p dlockctl' >/dev/null || fail "the bash completion completes nothing"
getent passwd dlockctl >/dev/null || fail "the deb made no user dlockctl"
if command -v systemd-analyze >/dev/null; then
  for service in lock-server payment-resource rail-proxy payout-executor rail-sim; do
    said="$(systemd-analyze verify --man=no "dlockctl@$service.service" 2>&1)" || fail "systemd refuses the unit: $said"
    [ -z "$said" ] || fail "systemd says of the unit: $said" # an unknown setting is a remark alone
  done
else
  echo "the unit was not verified: that needs Debian's package systemd" >&2
fi
dpkg --purge dlockctl >/dev/null
left="$(find /usr/bin/dlockctl /usr/share/man/man1 /etc/dlockctl /usr/lib/systemd/system -name 'dlockctl*' 2>/dev/null || true)"
[ -z "$left" ] || fail "purged, the deb leaves:"$'\n'"$left"
