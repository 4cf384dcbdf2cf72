package reconcile

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Proposal is a repair of one finding, for a person to look at. Nothing here is ever
// run by this program (K-8.5).
type Proposal struct {
	Finding  string   `json:"finding"`
	Class    string   `json:"class"`
	Severity Severity `json:"severity"`
	What     string   `json:"what"`
	// Kind is "sql" (for the schema's owner), "command" (of this program) or "look"
	// (a person has to decide first).
	Kind string `json:"kind"`
	// Do is the statement or the command, "" for look.
	Do string `json:"do,omitempty"`
	// Because says why this repairs it, and what it takes for granted.
	Because string `json:"because"`
	// Undo takes it back, for sql.
	Undo string `json:"undo,omitempty"`
}

// The kinds of a proposal.
const (
	ProposeSQL     = "sql"
	ProposeCommand = "command"
	ProposeLook    = "look"
)

// Propose returns a repair for each finding, in the findings' order.
func Propose(r Report) []Proposal {
	proposals := make([]Proposal, 0, len(r.Findings))
	for _, f := range r.Findings {
		p := proposalFor(f)
		p.Finding, p.Class, p.Severity, p.What = f.ID, f.Class, f.Severity, f.What
		proposals = append(proposals, p)
	}
	return proposals
}

func proposalFor(f Finding) Proposal {
	switch f.Class {
	case "A01":
		return proposeBalance(f)
	case unanchoredClass:
		return proposeOpening(f)
	case "B02":
		return proposeRaise(f)
	case "C01", "C04":
		return proposeResolve(f)
	case "C11":
		return Proposal{
			Kind: ProposeCommand, Do: "dlockctl payout show " + f.PayoutID,
			Because: "a payout that has not been near the rail is released (dlockctl payout release) or given up (dlockctl payout abandon); one that has is resolved (dlockctl payout resolve)",
		}
	case guardsClass, historyClass, "D02":
		return Proposal{Kind: ProposeCommand, Do: "dlockctl doctor", Because: "it prints the statement that puts the guard back, or says which migration is missing"}
	case "B07", "B08", "B09", "B18", "D01", "D03", "D04":
		return Proposal{Kind: ProposeCommand, Do: "dlockctl restore plan", Because: "one of the databases is older than what the other remembers; nothing may be granted before that is settled"}
	default:
		return Proposal{
			Kind: ProposeLook,
			Because: "legs are never changed, and what is right cannot be told from the rows alone: read dlockctl reconcile explain " + f.ID +
				", decide with finance, and book a correction",
		}
	}
}

// details reads the numbers that a rule kept beside its sentence.
func details(f Finding) map[string]any {
	values := map[string]any{}
	// What is missing is asked for by name, and leads to a look.
	_ = json.Unmarshal(f.Details, &values)
	return values
}

// proposeBalance follows the legs: they are the record, and the balance is their sum.
func proposeBalance(f Finding) Proposal {
	balance, ok := details(f)["balance_minor"].(string)
	if !ok || f.AmountMinor == "" {
		return Proposal{Kind: ProposeLook, Because: "the rule did not say by how much"}
	}
	set := func(by, from string) string {
		return fmt.Sprintf("UPDATE account SET balance_minor = %s - (%s), updated_at = now() WHERE account_id = '%s' AND balance_minor = %s;", from, by, f.AccountID, from)
	}
	want := difference(balance, f.AmountMinor)
	return Proposal{
		Kind: ProposeSQL, Do: set(f.AmountMinor, balance),
		Undo:    fmt.Sprintf("UPDATE account SET balance_minor = %s, updated_at = now() WHERE account_id = '%s' AND balance_minor = %s;", balance, f.AccountID, want),
		Because: "the legs are the record and the balance is their sum; if it is a leg that is wrong, this is not the repair: read the finding's explanation first",
	}
}

// proposeOpening records what balance and legs imply.
func proposeOpening(f Finding) Proposal {
	return Proposal{
		Kind: ProposeSQL,
		Do: fmt.Sprintf("INSERT INTO opening_balance (account_id, amount_minor, as_of, recorded_by, reason) VALUES ('%s', %s, now(), session_user, 'implied by balance and legs, see %s');",
			f.AccountID, strings.TrimPrefix(f.AmountMinor, "+"), f.ID),
		Because: "from then on a drift of the account is seen; a drift of before is taken for right, so compare the amount with another source first. It cannot be undone: openings are evidence",
	}
}

// proposeRaise records a fence that somebody raised without saying so.
func proposeRaise(f Finding) Proposal {
	if len(f.Suspects) == 0 {
		return Proposal{Kind: ProposeLook, Because: "the rule did not say to which token"}
	}
	return Proposal{
		Kind:    ProposeLook,
		Because: fmt.Sprintf("token %d raised the fence and wrote no leg: find out who (dlockctl token explain %d); a fence never goes back, and the next holder's token is above it", f.Suspects[0], f.Suspects[0]),
	}
}

// proposeResolve finishes a payout by what its attempt says, or by evidence.
func proposeResolve(f Finding) Proposal {
	p := Proposal{Kind: ProposeCommand, Do: "dlockctl payout resolve " + f.PayoutID + " --reason 'finding " + f.ID + "' --dry-run", Because: "the rail has paid: it is posted under the account's lock"}
	if f.Class == "C04" {
		p.Because = "ask the rail for the payout's idempotency key first, and say what it answered: --verdict paid, rejected or not-found, with --evidence"
	}
	return p
}
