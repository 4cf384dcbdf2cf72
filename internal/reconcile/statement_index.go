package reconcile

import (
	"cmp"
	"slices"
	"strings"
)

// statementIndex finds the payments of a statement by name. It holds their places in the
// order of the names: maps of a million of them would need more than the lines.
type statementIndex struct {
	paid []paidLine
	// keys and references leave out the lines without.
	keys, references []int32
}

func (s *Statement) index() statementIndex {
	return statementIndex{s.paid, s.sorted(paidLine.ofKey), s.sorted(paidLine.ofReference)}
}

func (l paidLine) ofKey() string       { return l.key }
func (l paidLine) ofReference() string { return l.reference }

func (s *Statement) sorted(name func(paidLine) string) []int32 {
	places := make([]int32, 0, len(s.paid))
	for i, l := range s.paid {
		if name(l) != "" {
			places = append(places, int32(i)) // at most a million
		}
	}
	slices.SortFunc(places, func(a, b int32) int {
		return cmp.Or(strings.Compare(name(s.paid[a]), name(s.paid[b])), cmp.Compare(a, b))
	})
	return places
}

// repetition is a payment that stands twice.
type repetition struct{ first, again paidLine }

// repeated are the further lines of one payment, in their order: those whose key or
// reference an earlier line has.
func (x statementIndex) repeated() []repetition {
	first := map[int32]int32{}
	x.firsts(x.references, paidLine.ofReference, first)
	x.firsts(x.keys, paidLine.ofKey, first) // by which a line is matched
	found := make([]repetition, 0, len(first))
	for again, at := range first {
		found = append(found, repetition{x.paid[at], x.paid[again]})
	}
	slices.SortFunc(found, func(a, b repetition) int { return cmp.Compare(a.again.number, b.again.number) })
	return found
}

// firsts adds, for each line whose name an earlier one has, the first that has it.
func (x statementIndex) firsts(places []int32, name func(paidLine) string, first map[int32]int32) {
	begin := int32(-1)
	for _, at := range places {
		if begin >= 0 && name(x.paid[begin]) == name(x.paid[at]) {
			first[at] = begin
		} else {
			begin = at
		}
	}
}

// lists tells that a payment stands on the statement: by its key, or by its reference on
// a line without one. What a line with a key says it was, it lists no other payout.
func (x statementIndex) lists(key, reference string) bool {
	_, found := slices.BinarySearchFunc(x.keys, key, func(at int32, key string) int { return strings.Compare(x.paid[at].key, key) })
	if found && key != "" {
		return true
	}
	i, found := slices.BinarySearchFunc(x.references, reference, func(at int32, reference string) int { return strings.Compare(x.paid[at].reference, reference) })
	for found && i < len(x.references) && x.paid[x.references[i]].reference == reference {
		if x.paid[x.references[i]].key == "" {
			return true
		}
		i++
	}
	return false
}
