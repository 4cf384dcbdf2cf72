package html

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/dlockctl/dlockctl/internal/reconcile"
)

// group is the findings of a class.
type group struct {
	ID, Name, Severity, Rule, Count string
	Findings                        []finding
	// Left is how many of the class the page does not show, "" for none.
	Left string
}

type finding struct {
	ID, Class, Severity, What, Account, Payout, Subject, Amount, At string
	Confidence, Token, Holder, Key, Source, Revoked, Others, Why    string
	Details                                                         []pair
	Next                                                            string
	// Anchor is the account's timeline, "" where the page has none.
	Anchor string
	// Break is false for what only makes the run incomplete, and for what was not
	// looked at twice, which Unconfirmed tells.
	Break, Unconfirmed bool
}

type pair struct{ Name, Value string }

func groups(r reconcile.Report, catalogue map[string]reconcile.Class, told []timeline) []group {
	byClass := map[string][]reconcile.Finding{}
	for _, f := range r.Findings {
		byClass[f.Class] = append(byClass[f.Class], f)
	}
	delete(byClass, reconcile.CoverageClass) // that has a part of the page to itself
	room := mostInAll
	var out []group
	for _, c := range byWeight(r.Coverage) {
		found := byClass[c.Class]
		shown := found[:min(len(found), mostFindings, room)]
		if len(shown) == 0 {
			continue
		}
		room -= len(shown)
		g := group{
			ID: visible(c.Class), Name: visible(c.Name), Severity: string(c.Severity), Count: count(int64(len(found)), "finding", "findings"),
			Rule: visible(catalogue[c.Class].Rule),
		}
		for _, f := range shown {
			g.Findings = append(g.Findings, newFinding(f, told))
		}
		if left := len(found) - len(shown); left > 0 {
			g.Left = grouped(fmt.Sprint(left))
		}
		out = append(out, g)
	}
	return out
}

// begin is the finding to look at first.
func begin(all []group) *finding {
	for _, g := range all {
		for _, f := range g.Findings {
			if f.Break {
				return &f
			}
		}
	}
	return nil
}

func newFinding(f reconcile.Finding, told []timeline) finding {
	a := f.Attribution
	out := finding{
		ID: visible(f.ID), Class: visible(f.Class), Severity: string(f.Severity), What: visible(f.What), Account: visible(f.AccountID),
		Payout: visible(f.PayoutID), Subject: visible(f.Subject), Amount: money(f.AmountMinor, f.Currency), At: moment(f.At),
		Confidence: string(a.Confidence), Token: token(a.Token), Holder: visible(a.Holder), Key: visible(a.Key), Source: visible(a.Source),
		Why: visible(a.Why), Details: details(f.Details), Next: visible(f.Next), Break: f.IsBreak(), Unconfirmed: f.Unconfirmed,
	}
	if a.RevokedBy != "" {
		out.Revoked = fmt.Sprintf("%s: %s", visible(a.RevokedBy), visible(a.Reason))
	}
	var others []string
	for _, t := range a.Others[:min(len(a.Others), mostFindings)] {
		others = append(others, token(t))
	}
	if left := len(a.Others) - len(others); left > 0 {
		others = append(others, fmt.Sprintf("and %d more", left))
	}
	out.Others = strings.Join(others, ", ")
	for _, t := range told {
		if t.Account == out.Account && out.Account != "" {
			out.Anchor = t.Anchor
		}
	}
	return out
}

// details are the rule's own numbers, as far as they are plain values.
func details(raw json.RawMessage) []pair {
	var out []pair
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var fields map[string]any
	if dec.Decode(&fields) != nil {
		return nil // what is no object has no names to show
	}
	for name, value := range fields {
		var text string
		switch v := value.(type) {
		case nil:
			continue
		case string:
			text = visible(short(v, 200))
		case json.Number:
			text = grouped(v.String())
		default:
			compact, err := json.Marshal(v)
			if err != nil {
				continue
			}
			text = visible(short(string(compact), 200))
		}
		out = append(out, pair{visible(strings.ReplaceAll(name, "_", " ")), text})
	}
	slices.SortFunc(out, func(a, b pair) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// drift is how far balances are from their entries, per account.
type drift struct {
	Rows []driftRow
	// Left is how many more accounts drift, "" for none.
	Left string
	// Checked says over how many accounts; Skipped why over none.
	Checked, Skipped, Unanchored string
}

type driftRow struct {
	Account, Amount, Token, Holder string
	// Length is the bar's, in percent of the largest drift in this currency.
	Length int64
	High   bool
}

// driftClass is the rule that compares a balance with its entries.
const driftClass = "A01"

func newDrift(r reconcile.Report) drift {
	d := drift{}
	for _, c := range r.Coverage {
		if c.Class == driftClass {
			d.Checked, d.Skipped = count(c.Checked, "account", "accounts"), visible(c.Skipped)
		}
	}
	if r.Unanchored > 0 {
		d.Unanchored = count(r.Unanchored, "account has", "accounts have")
	}
	type sized struct {
		reconcile.Finding
		size *big.Int
	}
	var found []sized
	largest := map[string]*big.Int{}
	for _, f := range r.Findings {
		n, ok := new(big.Int).SetString(f.AmountMinor, 10)
		if f.Class != driftClass || !ok {
			continue
		}
		found = append(found, sized{f, n})
		if abs := new(big.Int).Abs(n); largest[f.Currency] == nil || abs.Cmp(largest[f.Currency]) > 0 {
			largest[f.Currency] = abs
		}
	}
	slices.SortStableFunc(found, func(a, b sized) int {
		return cmp.Or(strings.Compare(a.Currency, b.Currency), b.size.CmpAbs(a.size), strings.Compare(a.AccountID, b.AccountID))
	})
	for _, f := range found[:min(len(found), mostRows)] {
		row := driftRow{
			Account: visible(f.AccountID), Amount: money(f.AmountMinor, f.Currency), High: f.size.Sign() > 0,
			Token: token(f.Attribution.Token), Holder: visible(f.Attribution.Holder),
		}
		if top := largest[f.Currency]; top.Sign() > 0 {
			share := new(big.Int).Mul(new(big.Int).Abs(f.size), big.NewInt(100))
			row.Length = max(share.Div(share, top).Int64(), 1)
		}
		d.Rows = append(d.Rows, row)
	}
	if left := len(found) - len(d.Rows); left > 0 {
		d.Left = grouped(fmt.Sprint(left))
	}
	return d
}

type holderRow struct {
	Holder, Token, Severity, Findings, Classes, Confidence, Revoked string
	Amounts                                                         []string
}

type holderKey struct {
	holder string
	token  int64
}

type holderSum struct {
	holderKey
	worst       reconcile.Severity
	findings    int64
	classes     []string
	confidences []string
	revoked     string
	amounts     sums
}

// holders adds the findings up by who is behind them, and counts how many more
// holders there are than it lists.
func holders(r reconcile.Report) (rows []holderRow, left int) {
	byHolder := map[holderKey]*holderSum{}
	for _, f := range r.Findings {
		if !f.IsBreak() {
			continue
		}
		key := holderKey{f.Attribution.Holder, f.Attribution.Token}
		h := byHolder[key]
		if h == nil {
			h = &holderSum{holderKey: key, worst: f.Severity, amounts: sums{}}
			byHolder[key] = h
		}
		h.add(f)
	}
	all := make([]*holderSum, 0, len(byHolder))
	for _, h := range byHolder {
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b *holderSum) int {
		return cmp.Or(rank(a.worst)-rank(b.worst), cmp.Compare(b.findings, a.findings), cmp.Compare(a.token, b.token), strings.Compare(a.holder, b.holder))
	})
	for _, h := range all[:min(len(all), mostRows)] {
		name := visible(h.holder)
		if name == "" && h.token == 0 {
			name = "nobody could be named"
		}
		slices.Sort(h.classes)
		rows = append(rows, holderRow{
			Holder: name, Token: token(h.token), Severity: string(h.worst), Findings: grouped(fmt.Sprint(h.findings)),
			Classes: visible(strings.Join(h.classes, ", ")), Confidence: strings.Join(h.confidences, ", "),
			Revoked: h.revoked, Amounts: h.amounts.list(),
		})
	}
	return rows, len(all) - len(rows)
}

func (h *holderSum) add(f reconcile.Finding) {
	h.findings++
	if f.Severity.AtLeast(h.worst) {
		h.worst = f.Severity
	}
	if !slices.Contains(h.classes, f.Class) {
		h.classes = append(h.classes, f.Class)
	}
	if c := string(f.Attribution.Confidence); !slices.Contains(h.confidences, c) {
		h.confidences = append(h.confidences, c)
	}
	if f.Attribution.RevokedBy != "" {
		h.revoked = fmt.Sprintf("%s: %s", visible(f.Attribution.RevokedBy), visible(f.Attribution.Reason))
	}
	h.amounts.add(f.AmountMinor, f.Currency)
}

// pending is what work in flight explains, until its grace is over.
type pending struct {
	Rows []finding
	Left string
}

func newPending(r reconcile.Report) pending {
	var p pending
	for _, f := range r.Pending[:min(len(r.Pending), mostRows)] {
		p.Rows = append(p.Rows, newFinding(f, nil))
	}
	if left := len(r.Pending) - len(p.Rows); left > 0 {
		p.Left = grouped(fmt.Sprint(left))
	}
	return p
}
