#!/bin/sh
# Starts a service, waits until it listens, runs probe.sh with its address, hangs up
# on it, which must not end it, and stops it.
>err # what an earlier run wrote there would answer for this one
"$@" >out 2>err &
pid=$!
n=0
until grep -q listening err; do
  kill -0 $pid 2>/dev/null || break
  n=$((n+1))
  [ $n -lt 2400 ] || { echo "it does not listen after two minutes" >>out; break; }
  sleep 0.05
done
ADDRESS="$(sed -n 's/.*listening.*address=\([^ ]*\).*/\1/p' err | head -n 1)"
export ADDRESS
[ ! -f probe.sh ] || sh probe.sh >>out 2>&1
kill -HUP $pid 2>/dev/null
kill -TERM $pid 2>/dev/null
wait $pid
code=$?
cat out
cat err >&2
exit $code
