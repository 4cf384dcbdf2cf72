package life_test

import (
	"context"
	"errors"
	"sync"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
)

// manner is what the rail does with a payment.
type manner string

// The manners.
const (
	acks    manner = "acks"
	rejects manner = "rejects"
	// silent: it keeps the request, and answers when it is told to.
	silent manner = "is silent"
	// resets: the connection is cut, whatever became of the request.
	resets manner = "resets"
)

var errRail = errors.New("the rail's connection was cut")

// scriptedRail pays whatever it is asked to, as often as it is asked, and counts. It
// tells no duplicates apart: that would hide the fault.
type scriptedRail struct {
	mu       sync.Mutex
	received map[string]int
	// record is what it says of a key when it is asked.
	record map[string]rail.Answer
	// next is its manner with the payments to come.
	next manner
	// heard is called when it is silent.
	heard func()
	// open are the answers that are waited for.
	open map[string]chan rail.Answer
	// says is its answer to the next question, instead of its record.
	says func() (rail.Answer, error)
}

func newScriptedRail() *scriptedRail {
	return &scriptedRail{received: map[string]int{}, record: map[string]rail.Answer{}, next: acks, open: map[string]chan rail.Answer{}}
}

// Submit implements rail.Rail.
func (s *scriptedRail) Submit(ctx context.Context, req rail.Request) (rail.Answer, error) {
	s.mu.Lock()
	s.received[req.Key]++
	how, heard := s.next, s.heard
	answer := reference(req.Key, "paid", paystore.OutcomeAcked)
	if how == rejects {
		answer = reference(req.Key, "refused", paystore.OutcomeRejected)
	}
	s.record[req.Key] = answer
	late := make(chan rail.Answer, 1)
	if how == silent {
		s.open[req.Key] = late
	}
	s.mu.Unlock()
	switch how {
	case resets:
		return rail.Answer{}, errRail
	case silent:
		heard()
		select {
		case answer = <-late:
		case <-ctx.Done():
			return rail.Answer{}, ctx.Err()
		}
	case acks, rejects:
	}
	return answer, nil
}

func reference(key, what string, outcome paystore.Outcome) rail.Answer {
	return rail.Answer{Outcome: outcome, Reference: what + "-" + key}
}

// Status implements rail.Rail.
func (s *scriptedRail) Status(_ context.Context, key string) (rail.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.says != nil {
		return s.says()
	}
	if answer, found := s.record[key]; found {
		return answer, nil
	}
	return rail.Answer{Outcome: rail.NotFound}, nil
}

// behave sets the manner.
func (s *scriptedRail) behave(how manner, heard func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next, s.heard = how, heard
}

// say sets the answer to the questions to come.
func (s *scriptedRail) say(answer rail.Answer, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.says = func() (rail.Answer, error) { return answer, err }
}

// knows sets its record of a key.
func (s *scriptedRail) knows(key string, answer rail.Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record[key] = answer
}

// requests counts the payments that were asked for under a key.
func (s *scriptedRail) requests(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.received[key]
}

// twice are the keys that were asked for more than once.
func (s *scriptedRail) twice() (keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, n := range s.received {
		if n > 1 {
			keys = append(keys, key)
		}
	}
	return keys
}

// waiting tells that an answer is waited for.
func (s *scriptedRail) waiting(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[key] != nil
}

// answer is a late one.
func (s *scriptedRail) answer(key string, said rail.Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[key] <- said
	delete(s.open, key)
}

// answerAll lets nobody wait any longer.
func (s *scriptedRail) answerAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, late := range s.open {
		late <- reference(key, "paid", paystore.OutcomeAcked)
		delete(s.open, key)
	}
}
