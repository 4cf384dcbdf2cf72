package paydb

import "embed"

// Queries are the statements, by their files' names.
func Queries() map[string]string {
	return map[string]string{"status": statusQuery, "rights": rightsQuery}
}

// QueryFiles are the files of the statements.
func QueryFiles() embed.FS { return queryFiles }
