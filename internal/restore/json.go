package restore

import (
	"encoding/json"
)

// Every token is written as a number and as a string, for readers whose numbers
// end at 2^53 (K-5.4). What is read back are the numbers.

// MarshalJSON writes the plan with a string beside each token.
func (p Plan) MarshalJSON() ([]byte, error) {
	type plain Plan
	return json.Marshal(struct {
		plain
		LastStr     string `json:"last_str"`
		ObservedStr string `json:"observed_str"`
		MarginStr   string `json:"margin_str"`
		TargetStr   string `json:"target_str"`
		SkippedStr  string `json:"skipped_str"`
		HeadroomStr string `json:"headroom_str"`
	}{plain(p), p.Last.String(), p.Observed.String(), p.Margin.String(), p.Target.String(), p.Skipped.String(), p.Headroom.String()})
}

// MarshalJSON writes the result with a string beside each token.
func (r Result) MarshalJSON() ([]byte, error) {
	type plain Result
	return json.Marshal(struct {
		plain
		FromStr    string `json:"from_token_str"`
		ToStr      string `json:"to_token_str"`
		SkippedStr string `json:"skipped_str"`
	}{plain(r), r.From.String(), r.To.String(), r.Skipped.String()})
}

// MarshalJSON writes the verification with a string beside each token.
func (v Verification) MarshalJSON() ([]byte, error) {
	type plain Verification
	return json.Marshal(struct {
		plain
		LastStr    string `json:"last_str"`
		ReachedStr string `json:"reached_str"`
	}{plain(v), v.Last.String(), v.Reached.String()})
}

// MarshalJSON writes the repair with a string beside its token.
func (r PayRepair) MarshalJSON() ([]byte, error) {
	type plain PayRepair
	return json.Marshal(struct {
		plain
		ToStr string `json:"to_token_str"`
	}{plain(r), r.To.String()})
}
