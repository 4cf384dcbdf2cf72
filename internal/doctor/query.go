package doctor

import (
	"embed"
	"strings"
)

//go:embed queries/*.sql
var queryFiles embed.FS

// The statements. All read.
var (
	triggersQuery   = query("triggers")
	functionsQuery  = query("functions")
	sequenceQuery   = query("sequence")
	partitionsQuery = query("partitions")
	settingsQuery   = query("settings")
	idleQuery       = query("idle_timeout")
	rolesQuery      = query("roles")
	membersQuery    = query("members")
	loginsQuery     = query("service_logins")
	privilegesQuery = query("privileges")
	schemaQuery     = query("schema_rights")
	namesQuery      = query("names")
	ownersQuery     = query("owners")

	connectionsQuery      = query("connections")
	longTransactionsQuery = query("long_transactions")
	standbysQuery         = query("standbys")
	lapsedQuery           = query("lapsed")
	forgedQuery           = query("forged")
)

// query reads queries/<name>.sql. A file that is missing is a mistake of this
// package, found as soon as it is loaded.
func query(name string) string {
	text, err := queryFiles.ReadFile("queries/" + name + ".sql")
	if err != nil {
		panic(err)
	}
	return strings.TrimSuffix(strings.TrimSpace(string(text)), ";")
}
