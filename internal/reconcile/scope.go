package reconcile

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// The databases, by the names that messages give them.
const (
	payDB  = "paydb"
	lockDB = "lockdb"
)

// ScopeError is returned by [Run] for a scope that names nothing.
type ScopeError struct {
	// Field is "account", "currency" or "rule"; Value is what was given, and Want what
	// it has to be.
	Field, Value, Want string
}

func (e *ScopeError) Error() string {
	return fmt.Sprintf("%s %q: %s", e.Field, e.Value, e.Want)
}

var currencyCode = regexp.MustCompile(`^[A-Z]{3}$`)

// complete checks the scope and fills in what was left out.
func (o Options) complete() (Options, error) {
	if o.Workers <= 0 {
		o.Workers = DefaultWorkers
	}
	if o.MaxDuration <= 0 {
		o.MaxDuration = DefaultMaxDuration
	}
	scope := Scope{}
	for _, account := range o.Scope.Accounts {
		id, err := uuid.Parse(account)
		if err != nil {
			return o, &ScopeError{Field: "account", Value: account, Want: "an account is named by its UUID"}
		}
		if !slices.Contains(scope.Accounts, id.String()) {
			scope.Accounts = append(scope.Accounts, id.String())
		}
	}
	for _, currency := range o.Scope.Currencies {
		if !currencyCode.MatchString(currency) {
			return o, &ScopeError{Field: "currency", Value: currency, Want: "a currency is three capital letters, such as EUR"}
		}
		if !slices.Contains(scope.Currencies, currency) {
			scope.Currencies = append(scope.Currencies, currency)
		}
	}
	known := map[string]string{}
	for _, c := range Catalogue() {
		known[strings.ToLower(c.ID)], known[c.Name] = c.ID, c.ID
	}
	for _, rule := range o.Scope.Rules {
		id := known[strings.ToLower(rule)]
		if id == "" {
			return o, &ScopeError{Field: "rule", Value: rule, Want: "a rule is the id or the name of a class, such as A01 or balance_drift"}
		}
		scope.Rules = append(scope.Rules, id)
	}
	o.Scope = scope
	return o, nil
}
