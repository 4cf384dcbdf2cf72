package restore

import (
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// evidenceRow is a source as a table shows it.
type evidenceRow struct {
	Source string `json:"source"`
	// Status and Value are the fields of the JSON form; Token is both in one word.
	Status  lockstore.EvidenceStatus `json:"status"`
	Value   string                   `json:"value"`
	Token   string                   `json:"token"`
	Written lockstore.Time           `json:"at,omitzero"`
	Where   string                   `json:"row"`
}

func evidenceRows(evidence []lockstore.Evidence) []evidenceRow {
	rows := make([]evidenceRow, len(evidence))
	for i, e := range evidence {
		rows[i] = evidenceRow{Source: e.Source, Status: e.Status, Value: e.Value.String(), Token: word(e), Written: e.At, Where: where(e)}
	}
	return rows
}

// word is what a source answered.
func word(e lockstore.Evidence) string {
	switch e.Status {
	case lockstore.EvidenceUnavailable:
		return "UNAVAILABLE"
	case lockstore.EvidenceAccepted:
		return "unavailable"
	case lockstore.EvidenceNone:
		return "not in use"
	case lockstore.EvidenceEmpty:
		return "none"
	default:
		return e.Value.String()
	}
}

func where(e lockstore.Evidence) string {
	text := e.Row
	if e.Own {
		text = "a fast-forward's target, nobody's grant"
	}
	also := func(is bool, note string) {
		switch {
		case !is:
		case text == "":
			text = note
		default:
			text += "; " + note
		}
	}
	also(e.Reason != "", e.Reason)
	also(e.Status == lockstore.EvidenceAccepted, "accepted as missing")
	also(e.Above != "", "and "+e.Above+", above the limit")
	also(e.Note != "", e.Note)
	return text
}

// evidenceColumns are what CSV has.
func evidenceColumns() []ui.Column {
	return []ui.Column{{Field: "source"}, {Field: "status"}, {Field: "value"}, {Field: "at"}, {Field: "row"}}
}

// evidence is the table of the sources. The one that decides stands out.
func (p *page) evidence(evidence []lockstore.Evidence, decides string) {
	rows := evidenceRows(evidence)
	source, token := len("EVIDENCE"), len("TOKEN")
	tones := map[string]ui.Tone{"UNAVAILABLE": ui.Bad, "unavailable": ui.Warn, "none": ui.Faint, "not in use": ui.Faint}
	for _, r := range rows {
		source, token = max(source, len(r.Source)), max(token, len(r.Token))
	}
	const written, gaps = len("23h59m ago"), 6
	for i := range rows {
		rows[i].Where = p.cut(ui.Visible(rows[i].Where), p.width-source-token-written-gaps)
		if rows[i].Source == decides {
			tones[rows[i].Token] = ui.Strong
		}
	}
	p.part()
	p.print(ui.View{Data: rows, Columns: []ui.Column{
		{Title: "EVIDENCE", Field: "source"},
		{Title: "TOKEN", Field: "token", Kind: ui.Number, Tones: tones},
		{Title: "WRITTEN", Field: "at", Kind: ui.Since},
		{Title: "WHERE", Field: "row"},
	}})
}

// found says where a token was observed, and when that was written.
func found(evidence []lockstore.Evidence, source string, ago func(time.Time) string) string {
	for _, e := range evidence {
		if e.Source != source {
			continue
		}
		text := "in " + source
		if e.Row != "" && e.Row != source {
			text += ", " + e.Row
		}
		if !e.At.IsZero() && !e.At.Infinite {
			text += ", written " + ago(e.At.Time)
		}
		return text
	}
	return "nowhere"
}
