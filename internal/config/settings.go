package config

import "strings"

// Setting is one key and the ways to give it. The table of them is the only
// list: defaults, environment and flags are all read from it.
type Setting struct {
	// Key is the key in the file and in a profile.
	Key string
	// Flag is the command-line flag, "" for none: a DSN is no argument, since
	// arguments show in ps.
	Flag string
	// Default is the value when nothing is given.
	Default any
	// FileOnly keys are guards: read from the file alone, so that no flag and no
	// variable loosens them.
	FileOnly bool
	// Secret values are shown masked.
	Secret bool
}

// settings lists every key in the order of the documentation.
func settings() []Setting {
	return []Setting{
		{Key: "profile", Flag: "profile", Default: DevProfile},
		{Key: "environment", Flag: "environment", Default: ""},
		{Key: "protected", Default: false, FileOnly: true},
		{Key: "lock.dsn", Default: ""},
		{Key: "lock.dsn_file", Flag: "lock-dsn-file", Default: ""},
		{Key: "pay.dsn", Default: ""},
		{Key: "pay.dsn_file", Flag: "pay-dsn-file", Default: ""},
		{Key: "rail.dsn", Default: ""},
		{Key: "rail.dsn_file", Flag: "rail-dsn-file", Default: ""},
		{Key: "rail.url", Flag: "rail-url", Default: ""},
		{Key: "rail.key_file", Flag: "rail-key-file", Default: ""},
		{Key: "operator", Flag: "operator", Default: ""},
		{Key: "session", Flag: "session", Default: "", Secret: true},
		{Key: "output", Flag: "output", Default: "table"},
		{Key: "color", Flag: "color", Default: "auto"},
		{Key: "timeout", Flag: "timeout", Default: "30s"},
		{Key: "allow_same_instance", Flag: "allow-same-instance", Default: false},
		{Key: "no_payments", Default: false, FileOnly: true},
		{Key: "mark_dir", Flag: "mark-dir", Default: ""},
		{Key: "state_dir", Flag: "state-dir", Default: ""},
		{Key: "pg_bin", Flag: "pg-bin", Default: ""},
		{Key: "seed", Default: false},
	}
}

// Env is the environment variable of the key: lock.dsn is DLOCKCTL_LOCK_DSN.
func (s Setting) Env() string {
	return "DLOCKCTL_" + strings.ToUpper(strings.ReplaceAll(s.Key, ".", "_"))
}

// twin is the key that means the same in another form: whoever gives one of
// them on a higher layer takes the other, from a lower one, back.
func (s Setting) twin() string {
	if db, found := strings.CutSuffix(s.Key, ".dsn"); found {
		return db + ".dsn_file"
	}
	if db, found := strings.CutSuffix(s.Key, ".dsn_file"); found {
		return db + ".dsn"
	}
	return ""
}

// Layer is a place where a value can be given.
type Layer string

// The layers, lowest first.
const (
	Default Layer = "default"
	File    Layer = "file"
	Profile Layer = "profile"
	Env     Layer = "env"
	Flag    Layer = "flag"
)

// Origin is where a value came from: the layer, and the name it has there.
type Origin struct {
	Layer Layer
	// Name is the flag, the variable, the profile or the file.
	Name string
}

// String returns the origin as it reads in a message.
func (o Origin) String() string {
	switch o.Layer {
	case Profile:
		return "profile " + o.Name
	case File:
		return "file " + o.Name
	case Env, Flag:
		return o.Name
	default:
		return "the default"
	}
}
