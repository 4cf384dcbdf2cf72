#!/bin/sh
# Runs in each database's container the first time: the group roles, and a login for
# each service that has one of them and no other (K-4.6). `dlockctl migrate roles`
# finds the roles made.
set -eu
login() {
  psql -v ON_ERROR_STOP=1 -U postgres -d "$POSTGRES_DB" -v password="$POSTGRES_PASSWORD" <<SQL
CREATE ROLE $2 NOLOGIN;
CREATE ROLE $1 LOGIN PASSWORD :'password' IN ROLE $2;
ALTER ROLE $1 SET idle_in_transaction_session_timeout = '60s';
SQL
}
case "$POSTGRES_DB" in
  lockdb) login svc_lock lockapp ;;
  paydb) login svc_resource payapp_resource; login svc_rail payapp_rail ;;
esac
