package flyway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// TableName is Flyway's default name for the history.
const TableName = "flyway_schema_history"

// Types of history rows that have a meaning of their own. Every other type is a
// migration that some program applied.
const (
	typeSQL      = "SQL"
	typeBaseline = "BASELINE"
	typeSchema   = "SCHEMA"
	typeDelete   = "DELETE"
)

// Row is one row of the history, column by column.
type Row struct {
	InstalledRank int32     `json:"installed_rank"`
	Version       string    `json:"version,omitempty"` // "" is NULL: repeatable or schema marker
	Description   string    `json:"description"`
	Type          string    `json:"type"`
	Script        string    `json:"script"`
	Checksum      *int32    `json:"checksum"`
	InstalledBy   string    `json:"installed_by"`
	InstalledOn   time.Time `json:"installed_on"` // in the time zone of the session that wrote it: order rows by rank, not by this
	ExecutionTime int32     `json:"execution_time_ms"`
	Success       bool      `json:"success"`
}

// synthetic rows are markers, not migrations.
func (r Row) synthetic() bool {
	return r.Type == typeBaseline || r.Type == typeSchema || r.Type == typeDelete
}

// baseline covers the marker and the licensed kinds such as SQL_BASELINE.
func (r Row) baseline() bool {
	return r.Type == typeBaseline || strings.HasSuffix(r.Type, "_"+typeBaseline)
}

// Querier reads; a pgx connection, pool and transaction are each one.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// table is the history table of one schema.
type table struct{ schema, name string }

// quoted is how Flyway writes the table's name; its lock key is a hash of exactly this.
func (t table) quoted() string { return pgx.Identifier{t.schema, t.name}.Sanitize() }

// lockKey is Flyway's advisory lock: the letters "Flyway" as a number, plus Java's
// String.hashCode of the quoted table name.
func (t table) lockKey() int64 {
	const flyway = 0x466C79776179
	var hash int32
	for _, unit := range utf16.Encode([]rune(t.quoted())) {
		hash = 31*hash + int32(unit) // wraps, as Java's does
	}
	return flyway + int64(hash)
}

// exists looks where Flyway looks: an ordinary table of that name in that schema.
func (t table) exists(ctx context.Context, q Querier) (bool, error) {
	const sql = `SELECT EXISTS (
	SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
	WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind = 'r')`
	var exists bool
	if err := q.QueryRow(ctx, sql, t.schema, t.name).Scan(&exists); err != nil {
		return false, fmt.Errorf("look for %s: %w", t.quoted(), err)
	}
	return exists, nil
}

// rows reads the history by rank; none when the table does not exist.
func (t table) rows(ctx context.Context, q Querier) ([]Row, error) {
	exists, err := t.exists(ctx, q)
	if err != nil || !exists {
		return nil, err
	}
	// The comment keeps pgpool from asking a standby, as Flyway's own query does.
	const columns = `/*NO LOAD BALANCE*/ SELECT "installed_rank", coalesce("version", ''), "description", "type", "script",
	"checksum", "installed_by", "installed_on", "execution_time", "success" FROM `
	result, err := q.Query(ctx, columns+t.quoted()+` ORDER BY "installed_rank"`)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", t.quoted(), err)
	}
	rows, err := pgx.CollectRows(result, pgx.RowToStructByPos[Row])
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", t.quoted(), err)
	}
	return rows, nil
}

// create writes the table exactly as Flyway does; baseline, if not nil, becomes its
// first row between the same two statements where Flyway puts it.
func (t table) create(ctx context.Context, tx pgx.Tx, baseline *Row) error {
	const columns = ` (
    "installed_rank" INT NOT NULL,
    "version" VARCHAR(50),
    "description" VARCHAR(200) NOT NULL,
    "type" VARCHAR(20) NOT NULL,
    "script" VARCHAR(1000) NOT NULL,
    "checksum" INTEGER,
    "installed_by" VARCHAR(100) NOT NULL,
    "installed_on" TIMESTAMP NOT NULL DEFAULT now(),
    "execution_time" INTEGER NOT NULL,
    "success" BOOLEAN NOT NULL
)`
	if _, err := tx.Exec(ctx, "CREATE TABLE "+t.quoted()+columns); err != nil {
		return fmt.Errorf("create %s: %w", t.quoted(), err)
	}
	if baseline != nil {
		if err := t.insert(ctx, tx, *baseline); err != nil {
			return err
		}
	}
	for _, sql := range []string{
		"ALTER TABLE " + t.quoted() + ` ADD CONSTRAINT "` + t.name + `_pk" PRIMARY KEY ("installed_rank")`,
		`CREATE INDEX "` + t.name + `_s_idx" ON ` + t.quoted() + ` ("success")`,
	} {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return fmt.Errorf("create %s: %w", t.quoted(), err)
		}
	}
	return nil
}

// executor is what insert needs: a transaction, or the connection itself.
type executor interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// insert adds a row; installed_by is the current role and installed_on the column's
// default, as Flyway leaves them.
func (t table) insert(ctx context.Context, db executor, row Row) error {
	const columns = ` ("installed_rank", "version", "description", "type", "script", "checksum", "installed_by", "execution_time", "success")
	VALUES ($1, nullif($2, ''), $3, $4, $5, $6, current_user, $7, $8)`
	_, err := db.Exec(ctx, "INSERT INTO "+t.quoted()+columns, row.InstalledRank, row.Version, row.Description, row.Type,
		row.Script, row.Checksum, row.ExecutionTime, row.Success)
	if err != nil {
		return fmt.Errorf("record %s: %w", row.Script, err)
	}
	return nil
}

// nextRank continues the history; only Flyway's schema marker has rank 0.
func nextRank(rows []Row) int32 {
	if len(rows) == 0 {
		return 1
	}
	return rows[len(rows)-1].InstalledRank + 1
}

// emptySchema is Flyway's test for a schema that holds nothing: no table, view,
// sequence, type or function that does not belong to an extension.
func emptySchema(ctx context.Context, q Querier, schema string) (bool, error) {
	const sql = `SELECT NOT EXISTS (
	SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
	LEFT JOIN pg_catalog.pg_depend d ON d.objid = c.oid AND d.deptype = 'e'
	WHERE n.nspname = $1 AND d.objid IS NULL AND c.relkind IN ('r', 'v', 'S', 't')
	UNION ALL
	SELECT FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
	LEFT JOIN pg_catalog.pg_depend d ON d.objid = t.oid AND d.deptype = 'e'
	WHERE n.nspname = $1 AND d.objid IS NULL AND t.typcategory NOT IN ('A', 'C')
	UNION ALL
	SELECT FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
	LEFT JOIN pg_catalog.pg_depend d ON d.objid = p.oid AND d.deptype = 'e'
	WHERE n.nspname = $1 AND d.objid IS NULL)`
	var empty bool
	if err := q.QueryRow(ctx, sql, schema).Scan(&empty); err != nil {
		return false, fmt.Errorf("look into schema %q: %w", schema, err)
	}
	return empty, nil
}

// Applied returns the rows that are in force: of every version and every repeatable
// the latest one, without those that a DELETE row took back, without markers for
// schemas and deletions. Baseline rows stay. Schema "" means the connection's
// current_schema. A database without a history has none.
func Applied(ctx context.Context, q Querier, schema string) ([]Row, error) {
	return AppliedIn(ctx, q, schema, TableName)
}

// AppliedIn is Applied for a history of another name.
func AppliedIn(ctx context.Context, q Querier, schema, name string) ([]Row, error) {
	schema, err := schemaOf(ctx, q, schema)
	if err != nil {
		return nil, err
	}
	rows, err := table{schema, name}.rows(ctx, q)
	if err != nil {
		return nil, err
	}
	return fold(rows), nil
}

// schemaOf is the schema that was given, or the connection's current one.
func schemaOf(ctx context.Context, q Querier, schema string) (string, error) {
	if schema != "" {
		return schema, nil
	}
	if err := q.QueryRow(ctx, `SELECT coalesce(current_schema(), '')`).Scan(&schema); err != nil {
		return "", fmt.Errorf("read current schema: %w", err)
	}
	if schema == "" {
		return "", errNoSchema
	}
	return schema, nil
}

var errNoSchema = errors.New("search_path names no schema that exists; name the schema to migrate")

// fold keeps, in rank order, the latest live row per version and per repeatable.
func fold(rows []Row) []Row {
	latest := map[string]int{} // the key of a migration to the place of its latest row
	for i, row := range rows {
		key := "R " + row.Description
		if row.Version != "" {
			key = "V " + row.Version
			if v, err := parseVersion(row.Version); err == nil {
				key = "V " + v.key()
			}
		}
		switch row.Type {
		case typeSchema:
		case typeDelete:
			delete(latest, key)
		default:
			latest[key] = i
		}
	}
	live := make([]Row, 0, len(latest))
	for _, i := range slices.Sorted(maps.Values(latest)) {
		live = append(live, rows[i])
	}
	return live
}

// CurrentVersion returns the highest version among rows, as Applied returns them,
// and whether one of them failed. It is 0 without a version; of a dotted version,
// which this project's files never have, it is the first number.
func CurrentVersion(rows []Row) (current int, dirty bool) {
	for _, row := range rows {
		dirty = dirty || !row.Success
		major, _, _ := strings.Cut(row.Version, ".")
		if major == "" {
			continue
		}
		n, err := strconv.Atoi(major)
		if err != nil {
			n = math.MaxInt // more digits than an int has: certainly newer than anything known
		}
		current = max(current, n)
	}
	return current, dirty
}
