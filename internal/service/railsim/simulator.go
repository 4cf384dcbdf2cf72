package railsim

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dlockctl/dlockctl/internal/paystore"
)

// Options configure Open.
type Options struct {
	// StateFile keeps every request over a restart; empty keeps them in memory.
	StateFile string
	// Mood is the mood to begin with; nil is that of the state file, else ack.
	Mood *Mood
}

// Simulator is a payment rail.
type Simulator struct {
	mu       sync.Mutex
	journal  *journal
	broken   error // why the journal took no more
	mood     Mood
	payments map[string]*Payment
	order    []string // the keys, in the order they came
	paid     int      // how many payments were made, for their references
}

// entry is one request for a payment, and what was decided of it.
type entry struct {
	Key         string           `json:"idempotency_key"`
	PayoutID    string           `json:"payout_id"`
	AccountID   string           `json:"account_id"`
	AmountMinor paystore.Minor   `json:"amount_minor"`
	Currency    string           `json:"currency"`
	Outcome     paystore.Outcome `json:"outcome,omitempty"` // none: it was swallowed
	Reference   string           `json:"reference,omitempty"`
	Paid        bool             `json:"paid,omitempty"`
	At          time.Time        `json:"at"`
}

// Payment is what the rail knows of a key.
type Payment struct {
	IdempotencyKey string           `json:"idempotency_key"`
	PayoutID       string           `json:"payout_id"`
	AccountID      string           `json:"account_id"`
	AmountMinor    paystore.Minor   `json:"amount_minor"`
	AmountMinorStr string           `json:"amount_minor_str"`
	Currency       string           `json:"currency"`
	Outcome        paystore.Outcome `json:"outcome,omitempty" doc:"ACKED or REJECTED; absent when every request was swallowed"`
	Reference      string           `json:"reference,omitempty"`
	Requests       int              `json:"requests" doc:"How often it was asked for"`
	Paid           int              `json:"paid" doc:"How often it was paid: at most once, but for the mood broken"`
	FirstAt        time.Time        `json:"first_at"`
	LastAt         time.Time        `json:"last_at"`
}

// Open makes a rail, and reads what it did before from its state file. It returns
// paystore.ErrInvalid for a mood that is none.
func Open(opts Options) (*Simulator, error) {
	s := &Simulator{mood: Mood{Name: Ack}, payments: map[string]*Payment{}}
	if opts.StateFile != "" {
		journal, err := openJournal(opts.StateFile, s.apply)
		if err != nil {
			return nil, err
		}
		s.journal = journal
	}
	if opts.Mood == nil {
		return s, nil
	}
	if err := s.setMood(*opts.Mood); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close closes the state file.
func (s *Simulator) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.journal.close()
}

// apply takes one line of the state file in.
func (s *Simulator) apply(r record) {
	if r.Mood != nil {
		s.mood = *r.Mood
	}
	if r.Request == nil {
		return
	}
	e := r.Request
	p, known := s.payments[e.Key]
	if !known {
		p = &Payment{
			IdempotencyKey: e.Key, PayoutID: e.PayoutID, AccountID: e.AccountID, AmountMinor: e.AmountMinor,
			AmountMinorStr: e.AmountMinor.String(), Currency: e.Currency, FirstAt: e.At,
		}
		s.payments[e.Key] = p
		s.order = append(s.order, e.Key)
	}
	p.Requests++
	p.LastAt = e.At
	if e.Paid {
		p.Paid++
		s.paid++
	}
	if e.Outcome != "" {
		p.Outcome, p.Reference = e.Outcome, e.Reference
	}
}

// keep writes a line, then takes it in. After a write that failed the file may end in
// half a line, so nothing more is written.
func (s *Simulator) keep(r record) error {
	if s.broken == nil {
		s.broken = s.journal.add(r)
	}
	if s.broken == nil {
		s.apply(r)
	}
	return s.broken
}

func (s *Simulator) setMood(m Mood) error {
	if err := m.valid(); err != nil {
		return err
	}
	m = m.orDefaults()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keep(record{Mood: &m})
}

func (s *Simulator) moodNow() Mood {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mood
}

// request decides about a payment, and tells how it is answered. When it returns the
// decision is on disk.
func (s *Simulator) request(e entry, notAfter time.Time) (p Payment, manner Name, delay time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, n := s.payments[e.Key], 1
	if known != nil {
		n = known.Requests + 1
	}
	manner = s.mood.drawn(e.Key, n)
	switch {
	case manner == Silent: // not even looked at
	case known != nil && known.Outcome != "" && (manner != Broken || known.Outcome != paystore.OutcomeAcked):
		e.Outcome, e.Reference = known.Outcome, known.Reference
	case manner == Reject, !notAfter.IsZero() && time.Now().After(notAfter):
		// Looked at with the lock held: whoever was told NOT_FOUND after that instant is not
		// proven wrong by a request that lay in a buffer.
		e.Outcome = paystore.OutcomeRejected
	default:
		e.Outcome, e.Paid, e.Reference = paystore.OutcomeAcked, true, fmt.Sprintf("SIM-%06d", s.paid+1)
	}
	if err := s.keep(record{Request: &e}); err != nil {
		return Payment{}, "", 0, err
	}
	return *s.payments[e.Key], manner, s.mood.delay(), nil
}

// status is what the rail knows of a key, and whether it says so at all.
func (s *Simulator) status(key string) (p Payment, known, silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.payments[key]
	if found == nil || found.Outcome == "" { // what was swallowed is not known
		return Payment{}, false, s.mood.Name == Silent
	}
	return *found, true, s.mood.Name == Silent
}

// Totals are counts over every payment.
type Totals struct {
	Keys      int `json:"keys"`
	Requests  int `json:"requests"`
	Paid      int `json:"paid"`
	PaidTwice int `json:"paid_twice" doc:"Keys that were paid more than once"`
}

// list is a page of the payments in the order they came, and the counts of all.
func (s *Simulator) list(key string, offset, limit int) (page []Payment, totals Totals) {
	s.mu.Lock()
	defer s.mu.Unlock()
	page = []Payment{}
	totals = Totals{Keys: len(s.order), Paid: s.paid}
	for i, k := range s.order {
		p := s.payments[k]
		totals.Requests += p.Requests
		if p.Paid > 1 {
			totals.PaidTwice++
		}
		if i >= offset && len(page) < limit && (key == "" || key == k) {
			page = append(page, *p)
		}
	}
	return page, totals
}
