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

// Session is the caller's own session: --session, DLOCKCTL_SESSION, which unlike
// an argument does not show in ps (K-2.12), or the profile; "" for none.
func (a *App) Session() (lockstore.SessionID, error) {
	cfg, err := a.Config()
	if err != nil {
		return "", err
	}
	return lockstore.SessionID(cfg.Session.Reveal()), nil
}

// SessionArg is the session that an argument names, or else the caller's own;
// own tells that it is the caller's.
func (a *App) SessionArg(args []string) (id lockstore.SessionID, own bool, err error) {
	mine, err := a.Session()
	if err != nil {
		return "", false, err
	}
	id = mine
	if len(args) > 0 {
		id = lockstore.SessionID(args[0])
	}
	if id == "" && len(args) == 0 {
		return "", false, UsageError("DLOCKCTL_SESSION does not show in ps, as an argument does", "this needs ID, or a session in DLOCKCTL_SESSION")
	}
	return id, id == mine, lockstore.ValidSessionID(id)
}
