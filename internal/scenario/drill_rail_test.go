package scenario_test

import (
	"slices"
	"testing"

	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/scenario"
)

// Every step of the drill is as expected, each with its token and holder.
//
// Clauses: K-5.1, K-5.2, K-5.3
// Mutation: any of TestDrillRailTimeoutNotices.
func TestDrillRailTimeout(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		cast, _ := newCast(t, major)
		steps := scenario.DrillRailTimeout(t.Context(), cast)
		if wrong := failed(t, steps); len(wrong) > 0 || len(steps) != 11 {
			t.Errorf("PostgreSQL %d: %v of %d steps", major, wrong, len(steps))
		}
		for _, s := range steps {
			if s.Step != "paid_once" && s.Step != "reconciled" && (s.Token == 0 || s.Holder == "") {
				t.Errorf("PostgreSQL %d: %s is about token %s of %q", major, s.Step, s.Token, s.Holder)
			}
		}
	}
}

// A paydb that guesses what the rail did turns the drill red.
func TestDrillRailTimeoutNotices(t *testing.T) {
	t.Parallel()
	for step, sabotage := range map[string]string{
		// An outcome that is not known is taken for an acknowledgement.
		"paid_unheard": `CREATE FUNCTION guess() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.outcome := 'ACKED'; RETURN NEW; END $$;
			CREATE TRIGGER aa_guess BEFORE UPDATE ON rail_submission FOR EACH ROW WHEN (NEW.outcome = 'TIMEOUT') EXECUTE FUNCTION guess();
			ALTER TABLE rail_submission ENABLE ALWAYS TRIGGER aa_guess`,
	} {
		cast, dbs := newCast(t, 16)
		if _, err := dbs.Pay.Conn(t, "super").Exec(t.Context(), sabotage); err != nil {
			t.Fatal(err)
		}
		if wrong := failed(t, scenario.DrillRailTimeout(t.Context(), cast)); !slices.Contains(wrong, step) {
			t.Errorf("%s was not noticed: %v", step, wrong)
		}
	}
}
