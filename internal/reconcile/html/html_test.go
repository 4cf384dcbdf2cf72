package html_test

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/reconcile"
	"github.com/dlockctl/dlockctl/internal/reconcile/html"
)

func write(t *testing.T, r reconcile.Report, extra html.Extra) string {
	t.Helper()
	var page bytes.Buffer
	if err := html.Write(&page, r, extra); err != nil {
		t.Fatal(err)
	}
	return page.String()
}

// pages are the reports that the page is looked at with.
func pages(t *testing.T) map[string][]byte {
	t.Helper()
	full, extra := sample()
	return map[string][]byte{
		"full":    []byte(write(t, full, extra)),
		"clean":   []byte(write(t, clean(), html.Extra{})),
		"crowded": []byte(write(t, crowded(), extra)),
		"empty":   []byte(write(t, reconcile.Report{Outcome: reconcile.Incomplete}, html.Extra{})),
	}
}

// Every part of a report stands on the page, with its numbers.
//
// Mutation: leave any section out of page.html.
func TestPageSaysAll(t *testing.T) {
	t.Parallel()
	r, extra := sample()
	page := write(t, r, extra)
	for _, want := range []string{
		"<h1>BREAKS <span", "and incomplete", "18 breaks, and not everything was checked", "money may have moved wrongly",
		"01JDW3Q8ZK2M", "took 12.4 s", "currencies: EUR, JPY",
		"stopped after 30 s (--max-duration)", "<strong>D02</strong>",
		`<a href="#class-B12">B12</a> revoked_authored`, "98\u202f000\u00a0EUR",
		"123\u202f456\u202f789\u202f012\u202f345\u202f678\u202f901\u202f234\u202f567\u202f890\u00a0JPY", "\u2212",
		"RAIL_AMBIGUOUS", "2 h 1 min", "12 accounts have no opening balance",
		"executor-b@host-7", "token 131", "likely", "revoked by <bdi>alice@ops: it hangs",
		"340 earlier moments are not shown", "token 106 \u00b7 worker-a@host-1", "9 s after the revoke", "break B12", "&#43;1.0 s",
		"no token explains this difference", "dlockctl token explain 106", "4 more findings of this class are not shown", "dlockctl reconcile -o jsonl",
		"acknowledged 12 s ago, not posted yet", "<strong>not checked</strong>: the login role may not read",
		"one connection alone could share the snapshot", "7443200111222333444, timeline 1", "0/3A51F2C8", "on a standby that was 1\u202f840 ms behind", "9\u202f007\u202f199\u202f254\u202f740\u202f991",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// An incomplete run never looks clean, and a clean one says over how much.
//
// Mutation: let verdict call what is not BREAKS clean.
func TestVerdict(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		report    reconcile.Report
		want, not string
	}{
		"clean":      {clean(), "No break: 7 accounts, 1 rule.", "not everything was checked"},
		"incomplete": {reconcile.Report{Outcome: reconcile.Incomplete}, "This is not a clean result", "No break: "},
		"none of the outcomes": {
			reconcile.Report{}, "This is not a clean result", "No break: ",
		},
		"breaks": {
			reconcile.Report{Outcome: reconcile.Breaks, Complete: true, Findings: []reconcile.Finding{drift(account, "EUR", "5", 1)}},
			"1 break. The worst is high: the ledger is wrong.", "and incomplete",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page := write(t, c.report, html.Extra{})
			if !strings.Contains(page, c.want) || strings.Contains(page, c.not) {
				t.Errorf("want %q and not %q in the verdict of:\n%.3000s", c.want, c.not, page[strings.Index(page, "<header"):])
			}
		})
	}
}

// The page fetches nothing, runs nothing, and what the databases hold stays text.
//
// Mutation: take the Content-Security-Policy out of page.html, or visible out of
// newFinding.
func TestPageIsInert(t *testing.T) {
	t.Parallel()
	for name, page := range pages(t) {
		text := string(page)
		if !strings.Contains(text, `http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"`) {
			t.Errorf("%s: the policy is another one", name)
		}
		for _, forbidden := range []string{"<script", "<img", "<link", "<iframe", "<b>bold", "url(", "@import", "\u202e", "\x1b", "javascript:window.hit=1\"", "ZgotmplZ"} {
			if strings.Contains(text, forbidden) {
				t.Errorf("%s: the page holds %q", name, forbidden)
			}
		}
		if found := regexp.MustCompile(`(?:href|src)="[^#]`).FindString(text); found != "" {
			t.Errorf("%s: the page leads elsewhere: %s", name, found)
		}
	}
	if full := string(pages(t)["full"]); !strings.Contains(full, `&lt;img src=`) || !strings.Contains(full, `\u202e\u001b[31m`) {
		t.Error("hostile text is not shown as what it is")
	}
}

// Thousands of findings leave the page small, and it says what it left out.
//
// Mutation: take mostInAll out of groups, or the text of NotShown out of
// page.html.
func TestPageStaysSmall(t *testing.T) {
	t.Parallel()
	_, extra := sample()
	page := write(t, crowded(), extra)
	if len(page) > 600<<10 {
		t.Errorf("the page has %d bytes", len(page))
	}
	for _, want := range []string{
		"290 more findings of this class are not shown", "Not shown at all, for want of room: ", "X39 (300)",
		"375 more accounts are not shown", "more holders are not shown", "Every finding: <code>dlockctl reconcile -o jsonl</code>",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// Each table names its columns and rows for those who hear it, and headings
// follow one another.
//
// Mutation: drop a scope, or make an h3 an h4.
func TestStructure(t *testing.T) {
	t.Parallel()
	for name, page := range pages(t) {
		text := string(page)
		for _, th := range regexp.MustCompile(`<th\b[^>]*>`).FindAllString(text, -1) {
			if !strings.Contains(th, ` scope="`) {
				t.Errorf("%s: %s has no scope", name, th)
			}
		}
		level := 0
		for _, heading := range regexp.MustCompile(`<h([1-6])`).FindAllStringSubmatch(text, -1) {
			next := int(heading[1][0] - '0')
			if next > level+1 {
				t.Errorf("%s: h%d follows h%d", name, next, level)
			}
			level = next
		}
		for _, id := range regexp.MustCompile(`href="#([^"]+)"`).FindAllStringSubmatch(text, -1) {
			if strings.Count(text, fmt.Sprintf(`id=%q`, id[1])) != 1 {
				t.Errorf("%s: #%s leads nowhere, or to two places", name, id[1])
			}
		}
	}
}

// The picture of a timeline keeps the moment that shows the break, and says how
// many it does not draw.
//
// Mutation: let window begin at 0.
func TestLongTimeline(t *testing.T) {
	t.Parallel()
	tale := story()
	zombie := tale.Events[10]
	var events []reconcile.Moment
	for i := range 100 {
		m := reconcile.Moment{At: second(float64(i)), Kind: reconcile.MomentPosted, What: fmt.Sprintf("leg %d.", i)}.Of(int64(i+1), "w")
		if i == 60 {
			m = zombie
		}
		events = append(events, m)
	}
	tale.Events = events
	r := clean()
	r.Timelines = []reconcile.Timeline{tale}
	page := write(t, r, html.Extra{})
	for _, want := range []string{"9 s after the revoke", "384 earlier moments are not shown", "32 later moments are not shown", ">break B12<"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(page, "leg 43.") || !strings.Contains(page, "leg 44.") || !strings.Contains(page, "leg 67.") || strings.Contains(page, "leg 68.") {
		t.Error("the window is not around the break")
	}
}

// A page that could not be written, were it only its last byte, is an error.
//
// Mutation: leave the Flush's error out of Write.
func TestWriteFails(t *testing.T) {
	t.Parallel()
	full := errors.New("no space left")
	r, extra := sample()
	whole := len(write(t, r, extra))
	for _, room := range []int{0, 5000, whole - 1} {
		if err := html.Write(&disk{room, full}, r, extra); !errors.Is(err, full) {
			t.Errorf("error %v with room for %d of %d bytes, want %v", err, room, whole, full)
		}
	}
}

// disk has room for so many bytes.
type disk struct {
	room int
	err  error
}

func (d *disk) Write(p []byte) (int, error) {
	if d.room -= len(p); d.room < 0 {
		return 0, d.err
	}
	return len(p), nil
}
