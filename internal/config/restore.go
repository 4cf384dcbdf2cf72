package config

import (
	"errors"
	"fmt"
)

// What restore.auto may be (K-7.10).
const (
	// AutoOff: after a fail-over a person decides.
	AutoOff = "off"
	// AutoSafe: lock-server moves lockdb forward by itself where everything needed is
	// known, and refuses where it is not.
	AutoSafe = "safe"
)

// Restore says what lock-server may do by itself after a fail-over. Both files hold
// the connection string of a login that may SET ROLE dlock_owner.
type Restore struct {
	Auto               string `mapstructure:"auto"`
	OperatorDSNFile    string `mapstructure:"operator_dsn_file"`
	PayOperatorDSNFile string `mapstructure:"pay_operator_dsn_file"`
}

func (c *Config) validateRestore() error {
	if c.Restore.Auto != AutoOff && c.Restore.Auto != AutoSafe {
		return c.refuse("restore.auto", "restore.auto is %q; it may be %s or %s", c.Restore.Auto, AutoOff, AutoSafe)
	}
	for key, path := range map[string]string{
		"restore.operator_dsn_file": c.Restore.OperatorDSNFile, "restore.pay_operator_dsn_file": c.Restore.PayOperatorDSNFile,
	} {
		if IsDSN(path) {
			return c.refuse(key, "%s is a connection string, not the path of a file; write it into a file of mode 0600 and give its path", key)
		}
	}
	return nil
}

// AutoRestore tells whether the policy is in force, for a service that is about to
// start. It returns every reason why restore.auto = safe could never be carried out:
// a service that finds that out after a fail-over has promised too much.
func (c *Config) AutoRestore() (on bool, err error) {
	if c.Restore.Auto != AutoSafe {
		return false, nil
	}
	if c.Backend != Postgres {
		return false, c.refuse("restore.auto", "restore.auto is safe, and the backend is %s: only a lockdb is moved forward without a person; set it to off", c.Backend)
	}
	var errs []error
	needs := func(is bool, key, format string, args ...any) {
		if !is {
			errs = append(errs, c.refuse("restore.auto", "restore.auto is safe, and %s is not set: %s", key, fmt.Sprintf(format, args...)))
		}
	}
	needs(c.Restore.OperatorDSNFile != "", "restore.operator_dsn_file", "moving the sequence needs a login of lockdb that may SET ROLE dlock_owner")
	needs(c.NoPayments || c.Restore.PayOperatorDSNFile != "", "restore.pay_operator_dsn_file", "refusing older tokens needs one of paydb; a deployment without payments says no_payments: true")
	needs(c.MarkDir != "", "mark_dir", "without an outside mark nothing says how far the primary of before has granted")
	for key, path := range map[string]string{
		"restore.operator_dsn_file": c.Restore.OperatorDSNFile, "restore.pay_operator_dsn_file": c.Restore.PayOperatorDSNFile,
	} {
		if path == "" {
			continue
		}
		if _, err := (Database{DSNFile: path}).Read(); err != nil {
			errs = append(errs, c.refuse(key, "%w", err))
		}
	}
	return true, errors.Join(errs...)
}
