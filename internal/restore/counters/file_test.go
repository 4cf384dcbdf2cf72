package counters_test

import (
	"errors"
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
// Mutation: drop a name from keyColumns or fenceColumns, ignore a row that has none, or take any first line for titles.
func TestReadFile(t *testing.T) {
	t.Parallel()
	seen := func(key string, fence int64) counters.Observations {
		return counters.Observations{key: {Fence: fence, Source: "it"}}
	}
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
		{"", nil, "it is empty"},
		{"a,5\n", nil, "no line of titles"},
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
