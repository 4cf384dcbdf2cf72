package reconcile

import "time"

// useKind is how paydb uses a token; the bits are those of rules/walk_pay.sql.
type useKind int32

const (
	useLeg useKind = 1 << iota
	useClaim
	useAttempt
	useFence
	useRaise
	useMark
	useAccountFloor
	useRailFloor

	// written are the uses that a holder makes; the others only stand somewhere.
	written = useLeg | useClaim | useAttempt
)

// tokenUse is what one token did in paydb on the account of one payer.
type tokenUse struct {
	token int64
	// account is the payer, known is false for a floor, which is nobody's.
	account accountID
	known   bool
	kinds   useKind
	// twoNames tells that it claimed under more than one name.
	twoNames bool
	// debits counts the DEBIT legs that carry it.
	debits int64
	// last is when it wrote for the last time, by paydb's clock.
	last time.Time
}

// factKind is what lockdb says of a token; the numbers are those of
// rules/walk_lock.sql.
type factKind int16

const (
	factGrant factKind = iota + 1
	factRevocation
	factFence // drawn by an operator, nobody's grant (K-1.6)
	factEntry
)

// tokenFact is one thing that lockdb knows of a token.
type tokenFact struct {
	token    int64
	kind     factKind
	key      string
	owner    string
	operator string // of a revocation or a fence
	at       time.Time
	// copied is true for a grant that stood when the journal began.
	copied bool
}

// cursor is an ordered stream; ok is false at its end.
type cursor[T any] func() (next T, ok bool, err error)

// mergeTokens walks two streams, each in the order of its tokens, and visits every
// token of either once, with all that both have of it. The slices are valid during
// the visit only: the memory is that of one token's rows, whatever the streams hold.
func mergeTokens(uses cursor[tokenUse], facts cursor[tokenFact], visit func(token int64, uses []tokenUse, facts []tokenFact) error) error {
	pay := group[tokenUse]{next: uses, token: func(u tokenUse) int64 { return u.token }}
	lock := group[tokenFact]{next: facts, token: func(f tokenFact) int64 { return f.token }}
	if err := pay.advance(); err != nil {
		return err
	}
	if err := lock.advance(); err != nil {
		return err
	}
	for len(pay.rows) > 0 || len(lock.rows) > 0 {
		inPay := len(lock.rows) == 0 || len(pay.rows) > 0 && pay.at() <= lock.at()
		inLock := len(pay.rows) == 0 || len(lock.rows) > 0 && lock.at() <= pay.at()
		var (
			token int64
			u     []tokenUse
			f     []tokenFact
		)
		if inPay {
			token, u = pay.at(), pay.rows
		}
		if inLock {
			token, f = lock.at(), lock.rows
		}
		if err := visit(token, u, f); err != nil {
			return err
		}
		if inPay {
			if err := pay.advance(); err != nil {
				return err
			}
		}
		if inLock {
			if err := lock.advance(); err != nil {
				return err
			}
		}
	}
	return nil
}

// group holds the rows of the token at which a stream stands, and the first row of
// the next one.
type group[T any] struct {
	next  cursor[T]
	token func(T) int64
	rows  []T
	ahead T
	// begun is false before the first row, ended true after the last.
	begun, ended bool
}

func (g *group[T]) at() int64 { return g.token(g.rows[0]) }

// advance reads the next token's rows; none are left at the end.
func (g *group[T]) advance() error {
	g.rows = g.rows[:0]
	if !g.begun {
		g.begun = true
		if err := g.read(); err != nil {
			return err
		}
	}
	for !g.ended && (len(g.rows) == 0 || g.token(g.ahead) == g.at()) {
		g.rows = append(g.rows, g.ahead)
		if err := g.read(); err != nil {
			return err
		}
	}
	return nil
}

func (g *group[T]) read() error {
	row, ok, err := g.next()
	g.ahead, g.ended = row, !ok
	return err
}
