package top

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

const (
	// frame is every line that is not a lock.
	frame = 6
	// barWidth is the width of a lease's bar.
	barWidth = 10
	// ageWidth and leaseWidth hold the longest texts: "100d23h", a bar and "lapsed
	// 59m59s ago".
	ageWidth, leaseWidth = 8, barWidth + 1 + 17
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// rows is how many locks fit.
func (m *model) rows() int { return max(m.height-frame, 1) }

// View draws the screen on the terminal's other page, so that nothing of it is
// left behind. What the link cannot take yet is not drawn.
func (m *model) View() tea.View {
	if !m.link.hold() {
		m.drawn, m.asked = m.draw(), m.mode == confirming
		m.told = m.revoking != nil && m.revoking.said && (m.mode == watching || m.mode == detailed)
	}
	view := tea.NewView(m.drawn)
	view.AltScreen = true
	return view
}

// draw is the screen, never wider or higher than the terminal.
func (m *model) draw() string {
	lines := []string{m.title(), m.rates(), ""}
	if m.mode == detailed {
		lines = append(lines, m.details()...)
	} else {
		lines = append(lines, m.list()...)
	}
	for len(lines) < m.height-2 {
		lines = append(lines, "")
	}
	lines = append(lines[:max(m.height-2, 1)], m.status(), m.styles.Paint(ui.Faint, ui.Fit(m.keys(), m.width)))
	return strings.Join(lines, "\n")
}

func (m *model) title() string {
	held, lapsed := 0, 0
	for _, e := range m.last.entries {
		if m.remaining(e) > 0 || e.ExpiresAt.Infinite {
			held++
		} else {
			lapsed++
		}
	}
	text := fmt.Sprintf("dlockctl top  %s  %d held", ui.Visible(m.profile), held)
	if lapsed > 0 {
		text += fmt.Sprintf(", %d lapsed", lapsed)
	}
	text += fmt.Sprintf("  every %s", m.interval)
	if m.paused {
		text += "  PAUSED"
	}
	return m.styles.Paint(ui.Strong, ui.Fit(text, m.width))
}

// rates are the sparklines. A backend that does not count has none.
func (m *model) rates() string {
	if !m.last.metered {
		return ""
	}
	if len(m.grants) == 0 {
		return m.styles.Paint(ui.Faint, ui.Fit("grants and contention from the next look on", m.width))
	}
	width := max((m.width-58)/2, 5)
	text := fmt.Sprintf("grants/s %6.1f %s  contended/s %6.1f %s", m.grants[len(m.grants)-1], m.spark(m.grants, width),
		m.draws[len(m.draws)-1], m.spark(m.draws, width))
	if m.last.pulse.Waiting > 0 {
		text += fmt.Sprintf("  %d blocked", m.last.pulse.Waiting)
	}
	return ui.Fit(text, m.width)
}

// list is the table of locks.
func (m *model) list() []string {
	shown := m.shown()
	if !m.ready {
		return []string{"looking…"}
	}
	if len(shown) == 0 {
		return []string{"no locks"}
	}
	cursor := m.cursor(shown)
	m.top = min(max(m.top, cursor-m.rows()+2), cursor)
	token := len("TOKEN*")
	for _, e := range shown {
		token = max(token, len(e.Token.String()))
	}
	wait := waitWidth(shown)
	rest := max(m.width-len("> ")-len("  ")-len("  ")-token-len("  ")-ageWidth-wait-len("  ")-leaseWidth, 12)
	key := rest * 3 / 5
	owner := rest - key
	heading := func(by sorting, title string) string {
		if m.sort == by {
			return title + "*"
		}
		return title
	}
	lines := []string{m.styles.Paint(ui.Faint, ui.Fit(fmt.Sprintf("  %s  %s  %s  %s%s  %s",
		ui.Pad(heading(byKey, "KEY"), key), ui.Pad(heading(byOwner, "OWNER"), owner), ui.Pad(heading(byToken, "TOKEN"), token),
		ui.Pad(heading(byAge, "AGE"), ageWidth), waitCell(heading(byWait, waitTitle), wait), heading(byLease, "LEASE")), m.width))}
	for i := m.top; i < len(shown) && len(lines) < m.rows(); i++ {
		e := shown[i]
		mark := "  "
		if i == cursor {
			mark = "> "
		}
		left := m.remaining(e)
		bar, tone := m.bar(e, left)
		line := ui.Fit(fmt.Sprintf("%s%s  %s  %s  %s%s  ", mark, ui.Pad(ui.Visible(e.Key), key), ui.Pad(holder(e.Owner), owner),
			ui.Pad(e.Token.String(), token), ui.Pad(age(e, m.now.Sub(m.last.at)), ageWidth), waitCell(waiters(e), wait)), m.width)
		if i == cursor {
			line = m.styles.Paint(ui.Strong, line)
		}
		lines = append(lines, line+m.styles.Paint(tone, ui.Fit(bar, max(m.width-ui.Width(line), 0))))
	}
	return lines
}

// unknown stands for an owner where a backend's rows name none.
const unknown = "unknown"

// holder is an owner as the screen shows it.
func holder(owner string) string { return ui.Visible(cmp.Or(owner, unknown)) }

const waitTitle = "WAIT"

// waitWidth is the width of the waiters' column with the gap before it, 0 where nobody
// waits: in 80 columns the key and the owner need the room.
func waitWidth(shown []lockstore.Entry) int {
	width := 0
	for _, e := range shown {
		if e.Waiters > 0 {
			width = max(width, len("  ")+len(waitTitle+"*"), len("  ")+len(waiters(e)))
		}
	}
	return width
}

func waitCell(text string, width int) string {
	if width == 0 {
		return ""
	}
	return "  " + ui.Pad(text, width-len("  "))
}

func waiters(e lockstore.Entry) string {
	if e.Waiters == 0 {
		return ""
	}
	return strconv.Itoa(e.Waiters)
}

func age(e lockstore.Entry, since time.Duration) string {
	return strings.TrimSuffix(ui.Ago(e.Age+since), " ago")
}

// remaining is what the database counted, less the time since then.
func (m *model) remaining(e lockstore.Entry) time.Duration {
	return e.Remaining - max(m.now.Sub(m.last.at), 0)
}

// bar shows what remains of the longest lease that was seen of this grant.
func (m *model) bar(e lockstore.Entry, left time.Duration) (string, ui.Tone) {
	if e.ExpiresAt.Infinite {
		return "never ends", ui.Warn
	}
	full := max(m.full[grantOf(e)], time.Millisecond)
	cells := min(max(int(float64(barWidth)*float64(left)/float64(full)+0.5), 0), barWidth)
	on, off := "█", "░"
	if !m.unicode {
		on, off = "#", "."
	}
	tone := ui.Good
	switch {
	case left <= 0:
		tone = ui.Faint
	case left < full/3:
		tone = ui.Warn
	}
	return strings.Repeat(on, cells) + strings.Repeat(off, barWidth-cells) + " " + ui.Left(left.Truncate(time.Second/10)), tone
}

// spark draws rates by the highest of them.
func (m *model) spark(rates []float64, width int) string {
	levels := []rune("▁▂▃▄▅▆▇█")
	if !m.unicode {
		levels = []rune("_.-=+*#@")
	}
	rates = rates[max(0, len(rates)-width):]
	highest := 0.0
	for _, r := range rates {
		highest = max(highest, r)
	}
	var b strings.Builder
	for _, r := range rates {
		at := 0
		if highest > 0 {
			at = int(r / highest * float64(len(levels)-1))
		}
		b.WriteRune(levels[at])
	}
	return ui.Pad(b.String(), width)
}

// details is all that is known of one lock.
func (m *model) details() []string {
	if m.detail == nil {
		return []string{"looking…"}
	}
	e := *m.detail
	left := ui.Left(e.Remaining)
	if e.ExpiresAt.Infinite {
		left = "never ends"
	}
	blocked := "nobody"
	if len(e.BlockedBy) > 0 {
		blocked = "server process " + strings.Trim(strings.Join(strings.Fields(fmt.Sprint(e.BlockedBy)), ", "), "[]")
	}
	rows := [][2]string{
		{"KEY", e.Key},
		{"OWNER", holder(e.Owner)},
		{"TOKEN", e.Token.String()},
		{"ACQUIRED", e.AcquiredAt.String() + ", " + ui.Ago(e.Age)},
		{"EXPIRES", e.ExpiresAt.String() + ", " + left},
		{"BLOCKED BY", blocked},
	}
	if e.Session != "" {
		rows = append(rows, [2]string{"SESSION", e.Session.Masked()}, [2]string{"SESSION EXPIRES", e.SessionExpiresAt.String()})
	}
	if e.LockIDHash != "" {
		rows = append(rows, [2]string{"LOCK ID HASH", e.LockIDHash})
	}
	if e.Fence != "" {
		rows = append(rows, [2]string{"FENCE", e.Fence + ", which is no token"})
	}
	if e.Waiters > 0 {
		rows = append(rows, [2]string{"WAITERS", waiters(e)})
	}
	var lines []string
	for _, r := range rows {
		lines = append(lines, m.styles.Paint(ui.Faint, ui.Pad(r[0], 17))+ui.Fit(ui.Visible(r[1]), max(m.width-17, 1)))
	}
	return append(lines, "", m.styles.Paint(ui.Faint, ui.Fit("dlockctl token explain "+e.Token.String()+" tells what both databases know of it", m.width)))
}

// status is the line for questions and for what became of them.
func (m *model) status() string {
	switch {
	case m.mode == filtering:
		return ui.Fit("filter by key or owner: "+m.typed+"_", m.width)
	case m.mode == reasoning:
		return ui.Fit("revoke "+ui.Visible(m.target.Key)+" from "+holder(m.target.Owner)+", reason: "+m.typed+"_", m.width)
	case m.mode == confirming:
		return m.styles.Paint(ui.Alarm, ui.Fit(fmt.Sprintf("revoke %s, token %s, held by %s for %s, %s? y/N", ui.Visible(m.target.Key), m.target.Token,
			holder(m.target.Owner), age(m.target, 0), ui.Left(m.remaining(m.target))), m.width))
	case m.notice != "":
		return m.styles.Paint(m.tone, ui.Fit(ui.Visible(m.notice), m.width))
	case m.err != nil:
		return m.styles.Paint(ui.Bad, ui.Fit("what stands above is "+age(lockstore.Entry{}, m.now.Sub(m.last.at))+" old: "+ui.Visible(m.err.Error()), m.width))
	case m.filter != "":
		return ui.Fit(fmt.Sprintf("filter %q, esc ends it", m.filter), m.width)
	}
	return ""
}

func (m *model) keys() string {
	switch m.mode {
	case filtering, reasoning:
		return "enter: go on  esc: leave it"
	case confirming:
		return "y: revoke it  any other key: leave it"
	case detailed:
		return "r: revoke  any other key: back"
	default:
		return "arrows: choose  enter: details  s: sort  /: filter  r: revoke  p: pause  q: quit"
	}
}
