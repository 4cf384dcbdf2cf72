package counters

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/restore"
)

// named bounds the keys that a sentence names.
const named = 5

// Prepare looks at every counter and says what a fast-forward would do. It changes
// nothing, and SELECT is enough for it.
func Prepare(ctx context.Context, s *Store, opts Options) (Plan, error) {
	opts, err := opts.valid(false)
	if err != nil {
		return Plan{}, err
	}
	var seen sight
	err = s.conn.Read(ctx, "look at the counters", func(tx pgx.Tx) (err error) {
		seen, err = s.look(ctx, tx)
		return err
	})
	if err != nil {
		return Plan{}, err
	}
	return planOf(seen, opts), nil
}

func planOf(seen sight, opts Options) Plan {
	p := Plan{Why: []string{}, Fixes: []string{}, Identity: seen.identity, Margin: opts.Margin, Audit: seen.audit, Keys: seen.assess(opts)}
	of := map[State][]string{}
	for _, k := range p.Keys {
		of[k.State] = append(of[k.State], k.Key)
		if k.Behind {
			p.Behind++
		}
		if k.Held {
			p.Held++
		}
	}
	for _, a := range seen.audited {
		p.Moved = p.Moved || a.raised > 0 && a.on != seen.identity
	}
	p.Raise, p.Safe, p.Exhausted, p.Foreign = len(of[Raise]), len(of[Safe]), len(of[Exhausted]), len(of[Foreign])
	if refused := refuse(of, seen.misnamed(p.Keys, opts.Observed), seen.audit, opts.Margin); refused.Outcome != "" {
		p.Outcome, p.Why, p.Fixes = refused.Outcome, refused.Why, refused.Fixes
		return p
	}
	if p.Raise == 0 {
		p.Outcome = restore.Safe
		p.Why = append(p.Why, "every counter stands where a recorded fast-forward left it, and nothing was granted or observed above it")
		return p
	}
	p.Outcome = restore.Advanced
	if p.Behind > 0 {
		p.Why = append(p.Why, plural(p.Behind, "counter")+" would issue fences that are known already")
	}
	if p.Moved {
		p.Why = append(p.Why, "the last fast-forward was recorded on another instance or timeline: this database was restored or promoted since")
	}
	return p
}

// refusal is an outcome that changes nothing.
type refusal struct {
	Outcome    restore.Outcome
	Why, Fixes []string
}

func (r *refusal) add(outcome restore.Outcome, why, fix string) {
	if r.Outcome == "" {
		r.Outcome = outcome
	}
	r.Why, r.Fixes = append(r.Why, why), append(r.Fixes, fix)
}

// refuse says what keeps counters from being raised; all or none are.
func refuse(of map[State][]string, misnamed []string, audit bool, margin int64) refusal {
	var r refusal
	if len(misnamed) > 0 {
		r.add(restore.RefusedEvidence, fmt.Sprintf("--observed names %s, a counter and no lock that is known", names(misnamed)),
			"say the lock's key, which is what comes after fence: there; for a lock that is really called so, give a file with the columns fence_key and fence to --from")
	}
	if keys := of[Forged]; len(keys) > 0 {
		r.add(restore.RefusedEvidence, fmt.Sprintf("a fence above %d, the last one that is ever issued, is told of %s", limit, names(keys)),
			"correct the file or the number; where it stands in a lock's row or the audit, say the highest fence that was issued: --observed KEY=N")
	}
	if keys := of[Unreadable]; len(keys) > 0 {
		r.add(restore.RefusedEvidence, fmt.Sprintf("the fence in the lock's row is no number of 15 digits from 1 for %s", names(keys)),
			"say the highest fence that was issued: --observed KEY=N; a file does not stand for it")
	}
	if keys := of[NoRoom]; len(keys) > 0 {
		r.add(restore.RefusedConfig, fmt.Sprintf("a margin of %d passes %d, the last fence that is ever issued, for %s", margin, limit, names(keys)),
			"give a smaller one with --margin, and move what those keys protect to new keys")
	}
	if !audit {
		r.add(restore.RefusedConfig, "there is no table to record it in", migrateAudit)
	}
	return r
}

// misnamed are the keys that the operator has told by a counter's name: nobody knows
// such a lock, and there is such a counter.
func (seen sight) misnamed(keys []Key, told Observations) []string {
	stands := map[string]bool{}
	for _, r := range seen.rows {
		stands[r.fenceKey] = true
	}
	var found []string
	for _, k := range keys {
		if told[k.FenceKey].Settled && !stands[k.FenceKey] && !seen.audited[k.FenceKey].known() && stands[k.Key] {
			found = append(found, k.Key)
		}
	}
	return found
}

func names(keys []string) string {
	quoted := []string{}
	for _, key := range keys[:min(named, len(keys))] {
		quoted = append(quoted, fmt.Sprintf("%q", key))
	}
	text := strings.Join(quoted, ", ")
	if more := len(keys) - named; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
