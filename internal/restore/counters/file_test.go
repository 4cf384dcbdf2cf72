package counters_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/restore/counters"
)

// What the tables' own dump, lock list and restore plan write is read, the highest
// number of each row; what is none of these is refused with its place.
//
// Clauses: K-7.2
// Mutation: drop a name from keyColumns or fenceColumns, ignore a row that has none, take any first line for titles, or
// drop a case of counterOf or titled.
func TestReadFile(t *testing.T) {
	t.Parallel()
	seen := func(key string, fence int64) counters.Observations {
		return counters.Observations{key: {Fence: fence, Source: "it"}}
	}
	none := counters.Observations{}
	marks := strings.Repeat("\u0301", 31)
	for _, tt := range []struct {
		text string
		want counters.Observations
		err  string
	}{
		{"fence_key,fence,key_debug\nfence:a,42,a\n", seen("fence:a", 42), ""},
		{"key,lock_id,expires_at_ms,acquired_at_ms,fence,user_key\na,x,1,1,000000000000042,a\n", seen("fence:a", 42), ""},
		{"key,fence_key,counter,lock_fence,observed,state\n'=a,fence:=a,1,000000000000003,2,raise\n", seen("fence:=a", 3), ""},
		{"key,token\n'=a,7\n", seen("fence:=a", 7), ""},
		{"fence_key,fence\nfence:a,1\nfence:a,5\nfence:a,3\n", seen("fence:a", 5), ""},
		{`{"key":"a","token":7,"token_str":"7"}` + "\n" + `{"key":"a","token":6}`, seen("fence:a", 7), ""},
		{` [{"key":"a","token":7,"session_id":null}]`, seen("fence:a", 7), ""},
		{`{"outcome":"SAFE","keys":[{"fence_key":"fence:a","key":"a","counter":5,"observed":9,"target":100}]}`, seen("fence:a", 9), ""},
		{"{\"key\":\"cafe\u0301\",\"token\":1}", seen("fence:caf\u00e9", 1), ""},
		{"\ufefffence_key,fence\nfence:a,42\n", seen("fence:a", 42), ""},
		{"\ufeff{\"key\":\"a\",\"token\":7}", seen("fence:a", 7), ""},
		// What says nothing of a fence that was issued, and of a counter that SyncGuard has.
		{"fence_key,fence\nfence:a,0\n", none, ""},
		{`{"key":"a","token":0,"state":"stale"}`, none, ""},
		{`{"key":"a","token":null}`, none, ""},
		{"key,fence_key,counter,lock_fence,observed,state\nodd,odd,5,,0,foreign\n", none, ""},
		// The key's form, and a mark that is the key's own.
		{"key,fence_key,fence\ncafe\u0301,fence:caf\u00e9,4\n", seen("fence:caf\u00e9", 4), ""},
		{"fence_key,fence\nfence:a" + marks + ",4\n", seen("fence:a"+marks, 4), ""},
		{"key,lock_id,fence\n'=a,x,000000000000042\n", seen("fence:'=a", 42), ""},
		{"fence_key,fence\na,5\n", nil, `line 2: invalid argument: fence_key "a" is no counter of SyncGuard's`},
		{"fence_key,fence\nfence:,5\n", nil, `fence_key "fence:" is no counter`},
		{"fence_key,fence\nfence:cafe\u0301,5\n", nil, "is no counter of SyncGuard's, which is fence: and a lock's key in NFC"},
		{"fence_key,fence\nfence:" + strings.Repeat("x", 513) + ",5\n", nil, "is no counter of SyncGuard's"},
		{"key,fence_key,fence\na,fence:b,5\n", nil, `key "a" and fence_key "fence:b" are of two locks`},
		{`{"key":"b","fence_key":"fence:a","observed":9}`, nil, "are of two locks"},
		{"key,fence\na" + marks + ",4\n", nil, "more than 30 combining marks in a row, which SyncGuard normalises differently; use fewer: SyncGuard's own name"},
		{"key,fence\ncaf\xe9,4\n", nil, "is not text that a database holds"},
		{"{\"key\":\"caf\xe9\",\"fence\":4}", nil, "it is not UTF-8; export it with client_encoding UTF8"},
		{`{"key":"k\ud800","fence":4}`, nil, "its key has half a character"},
		{"key,fence,fence\na,9,3\n", nil, "it has two columns fence"},
		{`[{"key":"a","fence":4},7]`, nil, "none of the columns"},
		{"", nil, "it is empty"},
		{"a,5\n", nil, "no line of titles"},
		{"key;fence\na;5\n", nil, "its columns are not separated by commas"},
		{"key\tfence\na\t5\n", nil, "its columns are not separated by commas"},
		{"\xff\xfek\x00e\x00y\x00", nil, "it is not UTF-8; save it as CSV in UTF-8"},
		{"\xfe\xff\x00k\x00e\x00y", nil, "it is not UTF-8"},
		{"\x00k\x00e\x00y", nil, "it is not UTF-8"},
		{"fence:a,5,a\n", nil, "no line of titles"},
		{"fence_key,fence\nfence:a,x\n", nil, `line 2: invalid argument: fence "x"`},
		{"fence_key,fence\nfence:a,-5\n", nil, `fence "-5"`},
		{"fence_key\nfence:a\n", nil, "none of the columns"},
		{"fence\n1\n", nil, "neither a fence_key nor a key"},
		{`{"key":"a"`, nil, "object 1 is no JSON"},
	} {
		got := counters.Observations{}
		err := got.ReadFile(strings.NewReader(tt.text), "it")
		if tt.err != "" {
			if !errors.Is(err, lockstore.ErrInvalid) || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%q: %v, want %q", tt.text, err, tt.err)
			}
			continue
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%q: %v (-want +got):\n%s", tt.text, err, diff)
		}
	}
}

// What does not end is not read to its end.
//
// Mutation: read from r itself in ReadFile, or count nothing in bounded.
func TestFileTooLarge(t *testing.T) {
	t.Parallel()
	text := "key,fence\na,5\n"
	if got, err := io.ReadAll(counters.Bounded(strings.NewReader(text), len(text))); err != nil || string(got) != text {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := io.ReadAll(counters.Bounded(strings.NewReader(text), len(text)-1)); err == nil || !strings.Contains(err.Error(), "larger than 1 GiB") {
		t.Errorf("%q, %v", got, err)
	}
	// Read piece by piece, so that the bound is met before memory ends.
	lines := io.MultiReader(strings.NewReader("key,fence\n"), &again{text: "a,5\n"})
	if err := (counters.Observations{}).ReadFile(counters.Bounded(lines, 1<<20), "it"); !errors.Is(err, lockstore.ErrInvalid) || !strings.Contains(err.Error(), "larger than 1 GiB") {
		t.Errorf("%v", err)
	}
}

// again is a text without an end.
type again struct {
	text string
	at   int
}

func (a *again) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = a.text[a.at%len(a.text)]
		a.at++
	}
	return len(p), nil
}
