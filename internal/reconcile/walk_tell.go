package reconcile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// row is the suspicion as the engine takes it.
func (j *judge) row(s suspicion, t told) (Row, error) {
	r := Row{
		Class: s.class, Subject: strconv.FormatInt(s.token, 10), Currency: t.currency, Amount: t.amount,
		At: t.first, Suspects: []int64{s.token},
	}
	if s.known {
		r.AccountID = s.account.String()
	}
	if t.payouts == 1 {
		r.PayoutID = t.some[0]
	}
	switch s.class {
	case "B05":
		r.What = s.twiceText(t)
	case "B06":
		r.What = fmt.Sprintf("%s, but lockdb knows no grant, no revocation and no fence of that number, though its journal begins at token %d",
			s.wroteText(t), j.journal)
	case "B07":
		r.What = fmt.Sprintf("%s, but the last token that lockdb issued is %d: lockdb was restored or rewound, or the token is forged", s.wroteText(t), j.last)
	case "B08":
		j.standsAbove(&r, s, t.accountChanged)
	case "B09":
		j.standsAbove(&r, s, t.highWaterChange)
	case "B12":
		r.At = t.last
		r.What = fmt.Sprintf("token %d, which %q held on lock %q, was revoked by %q at %s, and wrote until %s: %s",
			s.token, s.revoked.owner, s.revoked.key, s.revoked.operator, instant(&s.revoked.at), instant(t.last), t.text(s.account))
	case postedTwiceClass:
		r.What = fmt.Sprintf("token %d%s posted %d payouts of account %s, among %s: one grant posts one, and the fence let the same token through again",
			s.token, s.grantText(), t.posted, s.account, strings.Join(t.some, ", "))
	case foreignLockClass:
		r.What = fmt.Sprintf("%s, but %s", s.wroteText(t), s.foreignText())
	}
	var err error
	r.Details, err = json.Marshal(s.details(t))
	return r, err
}

// standsAbove tells of a fence, a mark or a floor that nobody can reach.
func (j *judge) standsAbove(r *Row, s suspicion, changed *time.Time) {
	r.At, r.PayoutID, r.Amount = changed, "", ""
	var what string
	switch {
	case s.class == "B08" && s.kinds&useAccountFloor != 0:
		r.Subject, what = "floor", "the floor of all accounts"
	case s.class == "B08" && s.kinds&useFence != 0:
		r.Subject, what = "fence", "the fence of account "+s.account.String()
	case s.class == "B08":
		r.Subject, what = "raise", "a raise of the fence of account "+s.account.String()
	case s.kinds&useRailFloor != 0:
		r.Subject, what = "floor", "the rail's floor"
	default:
		r.Subject, what = "mark", "the rail's mark of account "+s.account.String()
	}
	r.What = fmt.Sprintf("%s stands at token %d, but the last token that lockdb issued is %d: lockdb was restored or rewound, and until it has caught up every holder is refused there",
		what, s.token, j.last)
}

// twiceText says what makes one token two grants.
func (s *suspicion) twiceText(t told) string {
	var signs []string
	if s.hasOther {
		signs = append(signs, fmt.Sprintf("it moved money of account %s and of account %s", s.account, s.other))
	}
	if len(t.names) > 1 {
		signs = append(signs, "it claimed as "+quoted(t.names))
	} else if s.twoNames {
		signs = append(signs, "it claimed under different names")
	}
	if s.unequal {
		how := "a revocation names"
		if s.against.kind == factEntry {
			how = "a lock is held under it, which names"
		}
		signs = append(signs, fmt.Sprintf("%s lock %q and %q", how, s.against.key, s.against.owner))
	}
	text := fmt.Sprintf("token %d is one grant%s, but %s: the sequence was rewound, or the token was passed on", s.token, s.grantText(), strings.Join(signs, ", and "))
	if s.known {
		text += fmt.Sprintf("; on account %s it wrote %s", s.account, t.text(s.account))
	}
	return text
}

func (s *suspicion) grantText() string {
	switch {
	case s.granted:
		return fmt.Sprintf(" (lock %q, to %q)", s.grant.key, s.grant.owner)
	case s.wasRevoked:
		return fmt.Sprintf(" (lock %q, revoked from %q)", s.revoked.key, s.revoked.owner)
	}
	return ""
}

func (s *suspicion) foreignText() string {
	if s.lockKey() == "" {
		return "it is a fence that an operator drew, and nobody's grant"
	}
	return fmt.Sprintf("it is the grant of another lock%s: whoever holds account %s's lock was not kept out", s.grantText(), s.account)
}

// wroteText says what the token did on the account.
func (s *suspicion) wroteText(t told) string {
	if s.kinds&written == 0 {
		stands := "a raise of the fence"
		if s.kinds&useMark != 0 {
			stands = "the rail's mark"
		}
		return fmt.Sprintf("%s of account %s stands at token %d", stands, s.account, s.token)
	}
	return fmt.Sprintf("token %d wrote on account %s: %s", s.token, s.account, t.text(s.account))
}

// text counts what was written.
func (t *told) text(account accountID) string {
	var parts []string
	for _, part := range []struct {
		n    int64
		what string
	}{{t.claims, "claim"}, {t.attempts, "rail attempt"}, {t.legs, "leg"}} {
		if part.n > 0 {
			parts = append(parts, plural(part.n, part.what))
		}
	}
	text := strings.Join(parts, ", ")
	switch {
	case t.payouts == 1:
		text += " of payout " + t.some[0]
	case t.payouts > 1:
		text += fmt.Sprintf(" of %d payouts of account %s", t.payouts, account)
	}
	if len(t.names) > 0 {
		text += ", claimed by " + quoted(t.names)
	}
	return text
}

func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func quoted(names []string) string {
	quoted := slices.Clone(names)
	for i, name := range quoted {
		quoted[i] = strconv.Quote(name)
	}
	return strings.Join(quoted, " and ")
}

func instant(at *time.Time) string {
	if at == nil {
		return "an unknown time"
	}
	return at.UTC().Format("2006-01-02 15:04:05 UTC")
}

// tokenDetails are the details of a finding of the walk.
type tokenDetails struct {
	Token      int64    `json:"token"`
	Lock       string   `json:"lock,omitempty"`
	Owner      string   `json:"owner,omitempty"`
	OtherLock  string   `json:"other_lock,omitempty"`
	OtherOwner string   `json:"other_owner,omitempty"`
	OtherPayer string   `json:"other_account,omitempty"`
	RevokedBy  string   `json:"revoked_by,omitempty"`
	RevokedAt  string   `json:"revoked_at,omitempty"`
	ClaimedBy  []string `json:"claimed_by,omitempty"`
	Payouts    []string `json:"payouts,omitempty"`
	// AllPayouts counts them, Payouts names the first ones.
	AllPayouts int64 `json:"payouts_total"`
	Claims     int64 `json:"claims"`
	Attempts   int64 `json:"attempts"`
	Legs       int64 `json:"legs"`
}

func (s *suspicion) details(t told) tokenDetails {
	d := tokenDetails{
		Token: s.token, Lock: s.lockKey(), ClaimedBy: t.names, Payouts: t.some, AllPayouts: t.payouts,
		Claims: t.claims, Attempts: t.attempts, Legs: t.legs,
	}
	if s.granted {
		d.Owner = s.grant.owner
	}
	if s.unequal {
		d.OtherLock, d.OtherOwner = s.against.key, s.against.owner
	}
	if s.hasOther {
		d.OtherPayer = s.other.String()
	}
	if s.wasRevoked {
		d.RevokedBy, d.RevokedAt = s.revoked.operator, s.revoked.at.UTC().Format(time.RFC3339)
	}
	return d
}
