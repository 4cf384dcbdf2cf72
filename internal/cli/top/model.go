package top

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// feed is where a model gets what it shows, and whom it asks to revoke.
type feed interface {
	look(ctx context.Context, since lockstore.Token) (look, error)
	details(ctx context.Context, key string) (lockstore.Entry, error)
	revoke(ctx context.Context, entry lockstore.Entry, reason string) (lockstore.LockOutcome, error)
}

type settings struct {
	profile  string
	interval time.Duration
	styles   ui.Styles
	// unicode: bars and sparklines are drawn with block characters.
	unicode bool
}

// look is what stood at one moment.
type look struct {
	entries []lockstore.Entry
	pulse   lockstore.Pulse
	// metered tells whether the backend counts grants.
	metered bool
	at      time.Time
}

// What the screen is doing.
type mode int

const (
	watching mode = iota
	filtering
	detailed
	// reasoning: a reason is being typed, and confirming: it is about to be done.
	reasoning
	confirming
)

// The columns that the list can be sorted by.
type sorting int

const (
	byKey sorting = iota
	byOwner
	byToken
	byAge
	byLease
	byWait
	sortings
)

// kept is how many seconds the sparklines remember.
const kept = 60

type model struct {
	feed feed
	settings
	// ctx ends the looks when the screen is left, and outer a revoke with the command.
	ctx, outer context.Context //nolint:containedctx // a screen has no caller for each key that is pressed
	cancel     context.CancelFunc

	// link is what the screen goes out by, and drawn the frame that went there last.
	link  *link
	drawn string
	// resized is a size that waits for the link.
	resized *tea.WindowSizeMsg
	// asked: the frame that was drawn last asks whether to revoke target.
	asked bool

	width, height int
	mode          mode
	sort          sorting
	paused        bool

	last  look
	now   time.Time
	err   error
	ready bool
	// grants and draws are rates, a second each, newest last.
	grants, draws []float64
	// full is the longest remaining lease that was seen of a grant: the whole bar.
	full map[lockstore.GrantRef]time.Duration

	filter, typed string
	// selected is the key under the cursor, which stays with its key.
	selected string
	top      int
	detail   *lockstore.Entry
	target   lockstore.Entry
	// revoking is the last revoke, until the person goes on after its outcome, which
	// told says was drawn.
	revoking *revocation
	told     bool
	// notice is what became of the last thing that was asked for.
	notice string
	tone   ui.Tone
}

func newModel(ctx context.Context, f feed, s settings) *model {
	looks, cancel := context.WithCancel(ctx)
	return &model{feed: f, settings: s, ctx: looks, outer: ctx, cancel: cancel, width: 80, height: 24, full: map[lockstore.GrantRef]time.Duration{}}
}

// The messages.
type (
	lookedMsg struct {
		look
		err error
	}
	tickMsg  time.Time
	againMsg struct{}
	// movedMsg: the link has taken all that it was given, after a frame had to wait.
	movedMsg   struct{}
	detailsMsg struct {
		entry lockstore.Entry
		err   error
	}
	revokedMsg struct{}
)

// Init looks at once.
func (m *model) Init() tea.Cmd { return tea.Batch(m.lookNow(), tick(time.Now())) }

func (m *model) lookNow() tea.Cmd {
	since := m.last.pulse.Last
	return func() tea.Msg {
		found, err := m.feed.look(m.ctx, since)
		return lookedMsg{found, err}
	}
}

// tick redraws what counts down between two looks.
func tick(time.Time) tea.Cmd {
	return tea.Tick(time.Second/2, func(at time.Time) tea.Msg { return tickMsg(at) })
}

// Update is told what happened.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case movedMsg:
		if size := m.resized; size != nil {
			m.resized = nil
			return m, func() tea.Msg { return *size }
		}
	case tickMsg:
		m.now = time.Time(msg)
		return m, tick(m.now)
	case lookedMsg:
		m.took(msg)
		return m, tea.Tick(m.interval, func(time.Time) tea.Msg { return againMsg{} })
	case againMsg:
		if m.paused {
			return m, tea.Tick(m.interval, func(time.Time) tea.Msg { return againMsg{} })
		}
		return m, m.lookNow()
	case detailsMsg:
		if m.mode == detailed {
			m.detail = &msg.entry
			if msg.err != nil {
				m.say(ui.Warn, msg.err.Error())
				m.mode = watching
			}
		}
	case revokedMsg:
		m.say(m.revoking.word())
		m.revoking.said = true
	case tea.KeyPressMsg:
		return m.press(msg)
	case tea.PasteMsg:
		m.paste(msg.Content)
	}
	return m, nil
}

// took takes a look in. One that failed leaves the last one standing, and says so.
func (m *model) took(msg lookedMsg) {
	if m.err = msg.err; msg.err != nil {
		return
	}
	before := m.last
	m.last, m.now, m.ready = msg.look, msg.at, true
	standing := map[lockstore.GrantRef]time.Duration{}
	for _, e := range msg.entries {
		standing[grantOf(e)] = max(m.full[grantOf(e)], e.Remaining)
	}
	m.full = standing
	seconds := msg.at.Sub(before.at).Seconds()
	if msg.metered && before.metered && seconds > 0 {
		drawn := float64(msg.pulse.Last - before.pulse.Last)
		m.grants = remember(m.grants, float64(msg.pulse.Grants)/seconds)
		// A plain grant draws two numbers, and a try that gets nothing one.
		m.draws = remember(m.draws, max(0, drawn-2*float64(msg.pulse.Grants))/seconds)
	}
}

// grantOf names a grant: some backends count tokens for each key.
func grantOf(e lockstore.Entry) lockstore.GrantRef {
	return lockstore.GrantRef{Key: e.Key, Token: e.Token}
}

func remember(rates []float64, rate float64) []float64 {
	rates = append(rates, rate)
	return rates[max(0, len(rates)-kept):]
}

func (m *model) say(tone ui.Tone, text string) { m.notice, m.tone = text, tone }

// press is told which key was pressed.
func (m *model) press(key tea.KeyPressMsg) (tea.Model, tea.Cmd) {
	if key.String() == "ctrl+c" {
		return m.leave()
	}
	switch m.mode {
	case filtering:
		return m.type_(key, func() tea.Cmd { m.filter = m.typed; return nil })
	case reasoning:
		return m.type_(key, m.confirm)
	case confirming:
		if key.String() == "y" {
			if !m.asked { // nobody has seen what they would agree to
				return m, nil
			}
			m.mode = watching
			return m, m.revoke()
		}
		m.mode = watching
		m.say(ui.Plain, "nothing was revoked")
		return m, nil
	case detailed:
		m.mode, m.detail = watching, nil
		if key.String() == "r" {
			return m.command(key)
		}
		return m, nil
	case watching:
	}
	return m.command(key)
}

// leave ends the looks; a revoke goes on.
func (m *model) leave() (tea.Model, tea.Cmd) {
	m.cancel()
	return m, tea.Quit
}

// command is a key of the list.
func (m *model) command(key tea.KeyPressMsg) (tea.Model, tea.Cmd) {
	if key.String() == "q" {
		return m.leave()
	}
	m.goOn()
	switch key.String() {
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup":
		m.move(-m.rows())
	case "pgdown":
		m.move(m.rows())
	case "s":
		m.sort = (m.sort + 1) % sortings
		if m.sort == byWait && waitWidth(m.shown()) == 0 {
			m.sort = byKey // there is no such column where nobody waits
		}
	case "p":
		m.paused = !m.paused
	case "/":
		m.mode, m.typed = filtering, m.filter
	case "esc":
		m.filter = ""
	case "enter":
		if e, ok := m.current(); ok {
			m.mode, m.detail = detailed, nil
			return m, func() tea.Msg {
				entry, err := m.feed.details(m.ctx, e.Key)
				return detailsMsg{entry, err}
			}
		}
	case "r":
		if e, ok := m.current(); ok && m.revoking == nil {
			m.mode, m.typed, m.target = reasoning, "", e
		}
	}
	return m, nil
}

// type_ edits the line that is typed; enter calls done.
func (m *model) type_(key tea.KeyPressMsg, done func() tea.Cmd) (tea.Model, tea.Cmd) {
	switch key.Code {
	case tea.KeyEscape:
		m.mode = watching
	case tea.KeyEnter:
		m.mode = watching
		return m, done()
	case tea.KeyBackspace:
		if runes := []rune(m.typed); len(runes) > 0 {
			m.typed = string(runes[:len(runes)-1])
		}
	default:
		m.paste(key.Text)
	}
	return m, nil
}

// paste adds to the line that is typed, where there is one.
func (m *model) paste(text string) {
	if m.mode != filtering && m.mode != reasoning {
		return
	}
	for _, r := range text {
		if unicode.IsPrint(r) {
			m.typed += string(r)
		}
	}
}

// confirm shows what is about to be broken, once a reason is there.
func (m *model) confirm() tea.Cmd {
	if m.typed = strings.TrimSpace(m.typed); m.typed == "" {
		m.say(ui.Warn, "nothing was revoked: the audit row wants a reason")
		return nil
	}
	m.mode, m.asked = confirming, false
	return nil
}

// shown are the entries that pass the filter, in order.
func (m *model) shown() []lockstore.Entry {
	var found []lockstore.Entry
	for _, e := range m.last.entries {
		if strings.Contains(e.Key, m.filter) || strings.Contains(e.Owner, m.filter) {
			found = append(found, e)
		}
	}
	slices.SortStableFunc(found, func(a, b lockstore.Entry) int {
		switch m.sort {
		case byOwner:
			return cmp.Compare(a.Owner, b.Owner)
		case byToken:
			return cmp.Compare(b.Token, a.Token)
		case byAge:
			return cmp.Compare(b.Age, a.Age)
		case byLease:
			return cmp.Compare(a.Remaining, b.Remaining)
		case byWait:
			return cmp.Compare(b.Waiters, a.Waiters)
		default:
			return cmp.Compare(a.Key, b.Key)
		}
	})
	return found
}

// cursor is the place of the selected key, or the nearest there is.
func (m *model) cursor(shown []lockstore.Entry) int {
	if at := slices.IndexFunc(shown, func(e lockstore.Entry) bool { return e.Key == m.selected }); at >= 0 {
		return at
	}
	return min(m.top, max(len(shown)-1, 0))
}

func (m *model) current() (lockstore.Entry, bool) {
	shown := m.shown()
	if len(shown) == 0 {
		return lockstore.Entry{}, false
	}
	return shown[m.cursor(shown)], true
}

func (m *model) move(by int) {
	shown := m.shown()
	if len(shown) == 0 {
		return
	}
	m.selected = shown[min(max(m.cursor(shown)+by, 0), len(shown)-1)].Key
}
