#!/bin/sh
# Configuration, state and the user stay: what a service wrote is not a package's to
# remove.
set -eu

if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
