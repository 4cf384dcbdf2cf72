package app

import "slices"

// Explain and RuleNames open the error table to its test.
func Explain(err error) Problem { return explain(err, false) }

// RuleNames lists the names in the error table.
func RuleNames() []string {
	var names []string
	for _, r := range rules(false) {
		names = append(names, r.name)
	}
	return names
}

// StoreCodes lists the code strings of the two stores' errors.
func StoreCodes() []string {
	var codes []string
	for _, r := range slices.Concat(lockRules(""), payRules("")) {
		codes = append(codes, r.code)
	}
	return codes
}

// RuleCodes lists the code strings of the error table with their exits.
func RuleCodes() map[string][]Exit {
	codes := map[string][]Exit{}
	for _, r := range rules(false) {
		codes[r.code] = append(codes[r.code], r.exit)
	}
	return codes
}
