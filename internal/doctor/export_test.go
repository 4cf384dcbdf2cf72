package doctor

import (
	"fmt"
	"path"
	"strings"
)

// AlwaysTriggers are the guards that the migrations make ENABLE ALWAYS, as
// table.trigger.
func AlwaysTriggers(database string) ([]string, error) {
	made, err := readSchema(database)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, t := range made.triggers {
		if t.enabled == "A" {
			names = append(names, t.table+"."+t.name)
		}
	}
	return names, nil
}

// Queries are the statements of this package by name.
func Queries() (map[string]string, error) {
	files, err := queryFiles.ReadDir("queries")
	if err != nil {
		return nil, fmt.Errorf("list queries: %w", err)
	}
	all := map[string]string{}
	for _, f := range files {
		name := strings.TrimSuffix(path.Base(f.Name()), ".sql")
		all[name] = query(name)
	}
	return all, nil
}
