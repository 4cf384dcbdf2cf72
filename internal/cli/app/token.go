package app

import (
	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// Token is a fencing token as every result carries it: as a number, and as a
// string for readers whose numbers end at 2^53 (K-5.4). Embed it.
type Token struct {
	Token    lockstore.Token `json:"token"`
	TokenStr string          `json:"token_str"`
}

// NewToken pairs the two forms.
func NewToken(t lockstore.Token) Token { return Token{t, t.String()} }

// TokenFlag is the value of a --token flag; the zero value is "not given".
type TokenFlag struct{ Token lockstore.Token }

// String returns the token, "" when none was given.
func (f *TokenFlag) String() string {
	if f.Token == 0 {
		return ""
	}
	return f.Token.String()
}

// Set reads the token and refuses what is none (K-1.6).
func (f *TokenFlag) Set(text string) error {
	token, err := lockstore.ParseToken(text)
	if err != nil {
		return err
	}
	f.Token = token
	return nil
}

// Type names the value in --help.
func (f *TokenFlag) Type() string { return "N" }

// SessionText is a session id as it is printed: masked, since it is the right
// to re-enter (K-2.12), unless the reader asked for it or just made it.
func SessionText(id lockstore.SessionID, show bool) string {
	if show || id == "" {
		return string(id)
	}
	return id.Masked()
}
