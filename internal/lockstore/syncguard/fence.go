package syncguard

import (
	"fmt"
	"strconv"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

const (
	// WarnFence is above which a key's fence nears its end.
	WarnFence lockstore.Token = 90_000_000_000_000
	// MaxFence is the last fence that is issued; then the key grants no more.
	MaxFence lockstore.Token = 900_000_000_000_000
)

// fenceText is a fence as a row holds it: text of 15 digits, which the library
// compares as text.
func fenceText(token lockstore.Token) string { return fmt.Sprintf("%015d", int64(token)) }

// fenceToken reads a row's fence; 0, which no grant has, for what is none. The
// library has issued such ("0000000000000-5"), and fences of 16 digits.
func fenceToken(text string) lockstore.Token {
	n, err := strconv.ParseInt(text, 10, 64)
	if token := lockstore.Token(n); err == nil && n > 0 && fenceText(token) == text {
		return token
	}
	return 0
}

// shownFence is a row's fence for people: the token, or 0 and the text as it stands,
// where that is none that an edge takes (K-1.6).
func shownFence(text string) (lockstore.Token, string) {
	token := fenceToken(text)
	switch {
	case text == "":
		return 0, "empty"
	case token == 0 || token > lockstore.MaxToken:
		return 0, text
	}
	return token, ""
}

// counterError refuses a counter from which no fence may be drawn.
func counterError(key string, counter lockstore.Token) error {
	problem := fmt.Sprintf("the counter of lock %q stands at %s, and the last fence is %s: the key grants no more", key, counter, MaxFence)
	if counter < 0 {
		problem = fmt.Sprintf("the counter of lock %q stands at %s, below 0: somebody set it there", key, counter)
	}
	return &lockstore.UnsafeError{Clause: "K-10.2", Problem: problem, Fix: "use another key, and find out what set the counter: dlockctl doctor --backend syncguard"}
}

// behindError refuses a counter that was set back below the row it would replace.
func behindError(key string, drawn, standing lockstore.Token) error {
	return &lockstore.UnsafeError{
		Clause:  "K-1.3",
		Problem: fmt.Sprintf("the counter of lock %q would issue fence %s, and the lock had %s already: the counter was set back, by a restore perhaps", key, drawn, standing),
		Fix:     "dlockctl restore fast-forward --backend syncguard",
	}
}
