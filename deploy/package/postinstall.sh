#!/bin/sh
# The services' own user. No service is started: which of them run here is a
# person's decision (systemctl enable --now dlockctl@lock-server).
set -eu

if ! getent passwd dlockctl >/dev/null; then
  if command -v systemd-sysusers >/dev/null; then
    systemd-sysusers /usr/lib/sysusers.d/dlockctl.conf
  elif command -v useradd >/dev/null; then
    useradd --system --user-group --home-dir /var/lib/dlockctl --no-create-home --shell /usr/sbin/nologin dlockctl
  else # Alpine
    addgroup -S dlockctl
    adduser -S -D -H -h /var/lib/dlockctl -s /sbin/nologin -G dlockctl dlockctl
  fi
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
