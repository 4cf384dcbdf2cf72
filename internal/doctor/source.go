package doctor

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/migrations"
)

// schema is what the migrations of one database make, read from the files
// themselves: a guard that a later version adds is looked for without being
// listed here a second time.
type schema struct {
	catalogue *flyway.Catalogue
	// seeded is catalogue with the seeds, for a database that has them.
	seeded *flyway.Catalogue
	// tables and sequences in the order they are made; what a column owns is not
	// among the sequences.
	tables, sequences []string
	triggers          []trigger
	functions         []function
	// restricted are the functions that not everybody may execute: whoever may
	// could attach a SECURITY DEFINER trigger function to a table of his own.
	restricted []string
}

// trigger is a guard as its migration makes it.
type trigger struct {
	table, name, function string
	// enabled is pg_trigger.tgenabled: A for ALWAYS, R for REPLICA, O where none was
	// asked for.
	enabled string
	create  string
	// cloned: PostgreSQL has made it from that of the parent.
	cloned bool
}

func (t trigger) rows() bool { return strings.Contains(t.create, "FOR EACH ROW") }

// function is what a guard runs.
type function struct {
	name, body string
	create     string
	// settings are the statements that complete it, but for search_path, which
	// depends on the schema.
	settings []string
}

// Statements begin at the start of a line: what a DO block or a function's body
// puts together is indented.
var (
	createTable    = pattern(`(?m)^CREATE TABLE (\w+)`)
	createSequence = pattern(`(?m)^CREATE SEQUENCE (\w+)`)
	createTrigger  = pattern(`(?m)^CREATE (?:OR REPLACE )?(?:CONSTRAINT )?TRIGGER (\w+) (?:BEFORE|AFTER) [^;]*? ON (\w+)\s[^;]*EXECUTE FUNCTION (\w+)\(\)`)
	enableTrigger  = pattern(`(?m)^ALTER TABLE (\w+) ENABLE (ALWAYS|REPLICA) TRIGGER (\w+)`)
	createFunction = pattern(`(?ms)^CREATE (?:OR REPLACE )?FUNCTION (\w+)\(.*?\) RETURNS .*?\$\$(.*?)\$\$`)
	revokeExecute  = pattern(`(?m)^REVOKE EXECUTE ON FUNCTION ([^;]*) FROM PUBLIC`)
	signature      = pattern(`(\w+)\(`)
	alterFunction  = pattern(`(?m)^ALTER FUNCTION (\w+)\([^)]*\) SET [^;]*`)
)

// pattern is compiled when it is first needed: few commands read a schema.
func pattern(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// readSchema reads the embedded migrations of a database.
func readSchema(name string) (schema, error) {
	var made schema
	var err error
	location := flyway.Location{FS: migrations.FS, Dir: name}
	if made.catalogue, err = flyway.Load(location); err != nil {
		return schema{}, fmt.Errorf("read the migrations of %s: %w", name, err)
	}
	made.seeded = made.catalogue
	if name == PayDB {
		if made.seeded, err = flyway.Load(location, flyway.Location{FS: migrations.FS, Dir: "seed/" + name}); err != nil {
			return schema{}, fmt.Errorf("read the seeds of %s: %w", name, err)
		}
	}
	for _, m := range made.catalogue.Migrations() {
		text, err := fs.ReadFile(migrations.FS, name+"/"+m.Script)
		if err != nil {
			return schema{}, fmt.Errorf("read the migrations of %s: %w", name, err)
		}
		made.add(string(text))
	}
	return made, nil
}

func (s *schema) add(text string) {
	for _, m := range createTable().FindAllStringSubmatch(text, -1) {
		s.tables = append(s.tables, m[1])
	}
	for _, m := range createSequence().FindAllStringSubmatch(text, -1) {
		s.sequences = append(s.sequences, m[1])
	}
	for _, m := range createTrigger().FindAllStringSubmatch(text, -1) {
		made := trigger{table: m[2], name: m[1], function: m[3], enabled: "O", create: m[0]}
		if i := slices.IndexFunc(s.triggers, func(t trigger) bool { return t.table == made.table && t.name == made.name }); i >= 0 {
			s.triggers[i] = made
			continue
		}
		s.triggers = append(s.triggers, made)
	}
	for _, m := range enableTrigger().FindAllStringSubmatch(text, -1) {
		for i := range s.triggers {
			if s.triggers[i].table == m[1] && s.triggers[i].name == m[3] {
				s.triggers[i].enabled = m[2][:1]
			}
		}
	}
	for _, m := range createFunction().FindAllStringSubmatch(text, -1) {
		made := function{name: m[1], body: m[2], create: m[0]}
		if i := slices.IndexFunc(s.functions, func(f function) bool { return f.name == made.name }); i >= 0 {
			s.functions[i] = made
			continue
		}
		s.functions = append(s.functions, made)
	}
	for _, m := range revokeExecute().FindAllStringSubmatch(text, -1) {
		for _, f := range signature().FindAllStringSubmatch(m[1], -1) {
			s.restricted = append(s.restricted, f[1])
		}
	}
	for _, m := range alterFunction().FindAllStringSubmatch(text, -1) {
		for i := range s.functions {
			if s.functions[i].name == m[1] {
				s.functions[i].settings = append(s.functions[i].settings, m[0])
			}
		}
	}
}

// on is the same trigger on a partition of its table.
func (t trigger) on(partition string) trigger {
	t.create = strings.Replace(t.create, " ON "+t.table+"\n", " ON "+partition+"\n", 1)
	t.table = partition
	return t
}

// enable is the statement that sets the trigger to what its migration asks for.
func (t trigger) enable() string {
	return "ALTER TABLE " + t.table + " ENABLE " + t.how() + "TRIGGER " + t.name
}

func (t trigger) how() string { return map[string]string{"A": "ALWAYS ", "R": "REPLICA "}[t.enabled] }

// again makes the trigger anew, whatever stands in its place.
func (t trigger) again() []string {
	return []string{"DROP TRIGGER IF EXISTS " + t.name + " ON " + t.table, t.create, t.enable()}
}

// searchPath is the setting that every function of the schema has (K-1.1).
func (f function) searchPath(schema string) string {
	return "ALTER FUNCTION " + f.name + " SET search_path = pg_catalog, " + schema + ", pg_temp"
}

// again makes the function anew. What is replaced loses its settings.
func (f function) again(schema string) []string {
	_, rest, _ := strings.Cut(f.create, "FUNCTION")
	create := "CREATE OR REPLACE FUNCTION" + rest
	return append([]string{create, f.searchPath(schema)}, f.settings...)
}
