package plant

import (
	"context"
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

//go:embed faults/*.sql nearmisses/*.sql statements/*.sql
var recipes embed.FS

// Fault is one planted break. Of account, payout and subject only those are given
// that a finding must name; it may name more, and there may be a finding for each of
// the two legs.
type Fault struct {
	Class string
	// Token is the author's, 0 where there is none.
	Token     int64
	AccountID string
	PayoutID  string
	// Subject is part of the finding's subject, such as the name of a trigger.
	Subject string
	// Dropped are the constraints and indexes that forbade it: D05 names each of them.
	Dropped []string
}

// recipe is a file of faults or nearmisses. Its comments say why; its sections are
//
//	-- drops: NAME, NAME   what it takes out of the schema
//	-- @paydb, -- @lockdb  statements, read from the table scene
//	-- @finding            token, account, payout and subject of the break
type recipe struct {
	name               string
	drops              []string
	pay, lock, finding string
}

func read(dir, name string) (recipe, error) {
	text, err := recipes.ReadFile(path.Join(dir, name+".sql"))
	if err != nil {
		return recipe{}, fmt.Errorf("nothing is known of %q in %s", name, dir)
	}
	r := recipe{name: name}
	section := new(string) // what stands above the first one
	for line := range strings.Lines(string(text)) {
		switch what, given, _ := strings.Cut(strings.TrimSpace(line), ": "); what {
		case "-- drops":
			r.drops = strings.Split(given, ", ")
		case "-- @paydb":
			section = &r.pay
		case "-- @lockdb":
			section = &r.lock
		case "-- @finding":
			section = &r.finding
		default:
			*section += line
		}
	}
	return r, nil
}

func (r recipe) class() string {
	class, _, _ := strings.Cut(r.name, "-")
	return class
}

// Classes lists what [World.Plant] knows, a class of the catalogue each; those of a
// rail statement are planted by [World.Statement].
func Classes() []string {
	var classes []string
	for _, name := range Variants() {
		classes = append(classes, recipe{name: name}.class())
	}
	return slices.Compact(classes)
}

// Variants lists the classes again, and the further ways to break some of them, such
// as "A08-payer". [World.Plant] takes these names too.
func Variants() []string { return names("faults") }

// NearMisses lists what [World.NearMiss] knows.
func NearMisses() []string { return names("nearmisses") }

func names(dir string) []string {
	files, err := recipes.ReadDir(dir)
	if err != nil {
		panic(err) // embedded: the folder is a constant of this package
	}
	var list []string
	for _, f := range files {
		list = append(list, strings.TrimSuffix(f.Name(), ".sql"))
	}
	slices.Sort(list)
	return list
}

// Plant breaks the world in exactly one way, on rows that no other fault uses. The
// classes A03, C14, D01, D04 and D10 compare with an earlier run: seal one first. D06
// shows in connections made from then on, and D09 is to be planted while a run is
// under way.
func (w *World) Plant(ctx context.Context, name string) (Fault, error) {
	faults, err := w.plant(ctx, "faults", name, 1)
	if err != nil {
		return Fault{}, fmt.Errorf("plant %s: %w", name, err)
	}
	return faults[0], nil
}

// NearMiss changes the world to the nearest thing to a break of the class that is
// none: inside the grace, one unit less, or explained by a record.
func (w *World) NearMiss(ctx context.Context, name string) error {
	if _, err := w.plant(ctx, "nearmisses", name, 1); err != nil {
		return fmt.Errorf("miss %s nearly: %w", name, err)
	}
	return nil
}

// PlantMany plants each class of rows so many times, a statement for all of them.
// It leaves out what concerns a whole database or an earlier run, what only an altered
// schema allows, and A02, which is no break.
func (w *World) PlantMany(ctx context.Context, perClass int) ([]Fault, error) {
	var all []Fault
	for _, class := range Classes() {
		r, err := read("faults", class)
		if err != nil {
			return nil, err
		}
		if class[0] == 'D' || len(r.drops) > 0 || slices.Contains([]string{"A02", "A03", "C14"}, class) {
			continue
		}
		faults, err := w.plant(ctx, "faults", class, perClass)
		if err != nil {
			return nil, fmt.Errorf("plant %d of %s: %w", perClass, class, err)
		}
		all = append(all, faults...)
	}
	return all, nil
}

func (w *World) plant(ctx context.Context, dir, name string, count int) ([]Fault, error) {
	r, err := read(dir, name)
	if err != nil {
		return nil, err
	}
	scenes, err := w.scenes(count)
	if err != nil {
		return nil, err
	}
	err = quietly(ctx, w.lock, func(ctx context.Context, tx pgx.Tx) error {
		if err := w.issue(ctx, tx); err != nil {
			return err
		}
		if err := stage(ctx, tx, "helpers_lock", scenes); err != nil {
			return err
		}
		return run(ctx, tx, r.lock)
	})
	if err != nil {
		return nil, fmt.Errorf("in lockdb: %w", err)
	}
	var faults []Fault
	err = quietly(ctx, w.pay, func(ctx context.Context, tx pgx.Tx) error {
		if err := stage(ctx, tx, "helpers_pay", scenes); err != nil {
			return err
		}
		if err := run(ctx, tx, r.pay); err != nil {
			return err
		}
		faults, err = r.findings(ctx, tx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("in paydb: %w", err)
	}
	return faults, nil
}

// run executes statements, and refuses one that changed nothing: the fault would not
// be there.
func run(ctx context.Context, tx pgx.Tx, sql string) error {
	results, err := tx.Conn().PgConn().Exec(ctx, sql).ReadAll()
	if err != nil {
		return err //nolint:wrapcheck // the caller says which fault it was
	}
	for i, result := range results {
		if tag := result.CommandTag; (tag.Insert() || tag.Update() || tag.Delete() || tag.Select()) && tag.RowsAffected() == 0 {
			return fmt.Errorf("statement %d, %s, changed nothing", i+1, tag)
		}
	}
	return nil
}

func (r recipe) findings(ctx context.Context, tx pgx.Tx) ([]Fault, error) {
	if r.finding == "" {
		return nil, nil
	}
	rows, err := tx.Query(ctx, "SELECT "+r.finding+" FROM scene ORDER BY n")
	if err != nil {
		return nil, fmt.Errorf("say what must be found: %w", err)
	}
	faults, err := pgx.CollectRows(rows, func(found pgx.CollectableRow) (Fault, error) {
		f := Fault{Class: r.class(), Dropped: r.drops}
		var account, payout pgtype.UUID
		var subject *string
		if err := found.Scan(&f.Token, &account, &payout, &subject); err != nil {
			return Fault{}, fmt.Errorf("scan: %w", err)
		}
		f.AccountID, f.PayoutID = account.String(), payout.String()
		if subject != nil {
			f.Subject = *subject
		}
		return f, nil
	})
	if err != nil {
		return nil, fmt.Errorf("say what must be found: %w", err)
	}
	return faults, nil
}
