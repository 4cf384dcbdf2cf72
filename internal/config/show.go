package config

import (
	"fmt"
	"maps"
	"slices"
)

// Value is one key as it stands, with secrets masked.
type Value struct {
	Key    string
	Text   string
	Origin Origin
}

// Values lists every key in the order of the documentation.
func (c *Config) Values() []Value {
	texts := map[string]string{
		"profile":  c.Profile,
		"lock.dsn": MaskDSN(c.Lock.DSN.Reveal()), "lock.dsn_file": c.Lock.DSNFile,
		"pay.dsn": MaskDSN(c.Pay.DSN.Reveal()), "pay.dsn_file": c.Pay.DSNFile,
		"rail.dsn": MaskDSN(c.Rail.DSN.Reveal()), "rail.dsn_file": c.Rail.DSNFile,
		"rail.url": c.Rail.URL, "rail.key_file": c.Rail.KeyFile, "rail.deadline": c.Rail.Deadline.String(),
		"rail.proxy.fencing.enabled": fmt.Sprint(c.Rail.Proxy.Fencing.Enabled), "payment.fencing.enabled": fmt.Sprint(c.Payment.Fencing.Enabled),
		"environment": c.Environment, "protected": fmt.Sprint(c.Protected),
		"operator": c.Operator, "session": c.Session.String(), "output": c.Output, "color": c.Color,
		"timeout": c.Timeout.String(), "allow_same_instance": fmt.Sprint(c.AllowSameInstance),
		"no_payments": fmt.Sprint(c.NoPayments), "mark_dir": c.MarkDir,
		"restore.auto": c.Restore.Auto, "restore.operator_dsn_file": c.Restore.OperatorDSNFile, "restore.pay_operator_dsn_file": c.Restore.PayOperatorDSNFile,
		"state_dir": c.StateDir, "pg_bin": c.PGBin, "seed": fmt.Sprint(c.Seed),
	}
	maps.Copy(texts, c.serviceTexts())
	maps.Copy(texts, c.backendTexts())
	var values []Value
	for _, s := range settings() {
		values = append(values, Value{s.Key, texts[s.Key], c.Origin(s.Key)})
	}
	return values
}

// Named is one profile of the file.
type Named struct {
	Name string
	Settings
}

// Named lists the profiles by name; dev is always among them.
func (c *Config) Named() []Named {
	names := slices.Collect(maps.Keys(c.Profiles))
	if _, written := c.Profiles[DevProfile]; !written {
		names = append(names, DevProfile)
	}
	slices.Sort(names)
	named := make([]Named, len(names))
	for i, name := range names {
		named[i] = Named{name, c.Profiles[name]}
		for _, file := range []*string{
			&named[i].Lock.DSNFile, &named[i].Pay.DSNFile, &named[i].Rail.DSNFile, &named[i].Rail.KeyFile,
			&named[i].Restore.OperatorDSNFile, &named[i].Restore.PayOperatorDSNFile,
			&named[i].Etcd.CAFile, &named[i].Etcd.CertFile, &named[i].Etcd.KeyFile, &named[i].Etcd.PasswordFile,
		} {
			*file = beside(c.File, *file)
		}
	}
	return named
}

// Describe says how a database is reached, with secrets masked; "" for not at
// all.
func (d Database) Describe() string {
	if d.DSNFile != "" {
		return "file " + d.DSNFile
	}
	return MaskDSN(d.DSN.Reveal())
}
