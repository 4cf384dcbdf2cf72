package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"

	"github.com/dlockctl/dlockctl/internal/config/userfile"
)

// Sources are where values come from, besides the file.
type Sources struct {
	// File is the file the caller named; "" means the one in the user's
	// configuration folder, if there is one.
	File string
	// Env looks an environment variable up; "" counts as unset.
	Env func(name string) string
	// Flag returns the value of a flag, and whether it was given.
	Flag func(name string) (string, bool)
}

// Load reads all sources into one Config. It returns ErrNoProfile for a
// profile that is nowhere defined. No error of it shows a secret.
func Load(src Sources) (*Config, error) {
	v := viper.New()
	v.SetConfigType("yaml")
	l := &loader{v: v, src: src, origins: map[string]Origin{}}
	for _, s := range settings() {
		v.SetDefault(s.Key, s.Default)
		l.origins[s.Key] = Origin{Layer: Default}
	}
	if err := l.readFile(); err != nil {
		return nil, err
	}
	if err := l.readProfile(); err != nil {
		return nil, err
	}
	for _, read := range []func() error{l.readEnv, l.readFlags} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	cfg := &Config{File: l.file, origins: l.origins}
	// Exact: a key that no field takes is refused by name.
	if err := v.UnmarshalExact(cfg); err != nil {
		return nil, fmt.Errorf("read the configuration: %w", l.explain(err))
	}
	cfg.Profile = l.profile
	if cfg.Environment == "" && cfg.Embedded() {
		cfg.Environment = DevEnvironment
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return cfg, nil
}

// loader lays one source over another in viper's config layer, each above the
// ones before, and keeps the book of origins.
type loader struct {
	v       *viper.Viper
	src     Sources
	file    string
	profile string
	origins map[string]Origin
}

func (l *loader) readFile() error {
	path, named := l.src.File, true
	if path == "" {
		path, named = l.src.Env("DLOCKCTL_CONFIG"), true
	}
	if path == "" {
		path, named = userfile.Path(l.src.Env), false
	}
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the configuration file: %w", err)
	}
	l.file = path
	if err := l.v.ReadConfig(bytes.NewReader(text)); err != nil {
		// The parser writes several lines, and of a value ten letters at most.
		return fmt.Errorf("read the configuration file %s: %s", path, strings.Join(strings.Fields(err.Error()), " "))
	}
	values := map[string]any{}
	for _, s := range settings() {
		if l.v.InConfig(s.Key) {
			values[s.Key] = l.v.Get(s.Key)
		}
	}
	return l.lay(Origin{File, path}, values)
}

// readProfile finds which profile stands, then lays its values over the file's.
func (l *loader) readProfile() error {
	l.profile = l.v.GetString("profile")
	if name := l.src.Env("DLOCKCTL_PROFILE"); name != "" {
		l.profile = name
	}
	if name, given := l.src.Flag("profile"); given {
		l.profile = name
	}
	written := l.v.Get("profiles")
	profiles, isMap := written.(map[string]any)
	if written != nil && !isMap {
		return fmt.Errorf("profiles in %s is no map; write a name and its keys below it", l.file)
	}
	body, found := profiles[l.profile]
	if !found {
		if l.profile == DevProfile {
			return nil
		}
		return fmt.Errorf("%w: %q is not in %s; %s", ErrNoProfile, l.profile, orNone(l.file), known(profiles))
	}
	nested, isMap := body.(map[string]any)
	if !isMap && body != nil {
		return fmt.Errorf("profile %q in %s is no map; write keys below it", l.profile, l.file)
	}
	values := map[string]any{}
	for _, s := range settings() {
		if value, ok := lookUp(nested, strings.Split(s.Key, ".")); ok {
			values[s.Key] = value
		}
	}
	return l.lay(Origin{Profile, l.profile}, values)
}

func orNone(file string) string {
	if file == "" {
		return "any configuration file"
	}
	return file
}

func known(profiles map[string]any) string {
	if len(profiles) == 0 {
		return "there are none; leave --profile out for the embedded dev profile"
	}
	return "known are " + strings.Join(slices.Sorted(maps.Keys(profiles)), ", ") + " (names are lower case)"
}

func lookUp(m map[string]any, path []string) (any, bool) {
	value, found := m[path[0]]
	if !found || len(path) == 1 {
		return value, found
	}
	inner, isMap := value.(map[string]any)
	if !isMap {
		return nil, false
	}
	return lookUp(inner, path[1:])
}

func (l *loader) readEnv() error {
	for _, s := range settings() {
		value := l.src.Env(s.Env())
		if value != "" && s.FileOnly {
			return fmt.Errorf("%s is not read: %s stands in the configuration file alone, so that no environment loosens it", s.Env(), s.Key)
		}
		if value != "" {
			if err := l.lay(Origin{Env, s.Env()}, map[string]any{s.Key: value}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *loader) readFlags() error {
	for _, s := range settings() {
		if value, given := l.src.Flag(s.Flag); given && s.Flag != "" {
			if err := l.lay(Origin{Flag, "--" + s.Flag}, map[string]any{s.Key: value}); err != nil {
				return err
			}
		}
	}
	return nil
}

// lay puts the values of one origin above all before it.
func (l *loader) lay(origin Origin, values map[string]any) error {
	for _, s := range settings() {
		value, given := values[s.Key]
		if !given {
			continue
		}
		if path, isText := value.(string); isText && l.ownFile(origin) && strings.HasSuffix(s.Key, "_file") && !IsDSN(path) {
			value = beside(l.file, path)
		}
		if err := l.v.MergeConfigMap(nest(s.Key, value)); err != nil {
			return fmt.Errorf("take %s from %s: %w", s.Key, origin, err)
		}
		// A twin given on a lower layer is taken back; one given beside it,
		// by the same origin or the same layer, is a contradiction.
		if twin := s.twin(); twin != "" && l.origins[twin].Layer != origin.Layer {
			if _, beside := values[twin]; !beside {
				if err := l.v.MergeConfigMap(nest(twin, "")); err != nil {
					return fmt.Errorf("take %s from %s: %w", s.Key, origin, err)
				}
			}
		}
		l.origins[s.Key] = origin
	}
	return nil
}

func (l *loader) ownFile(origin Origin) bool { return origin.Layer == File || origin.Layer == Profile }

// beside reads a relative path in the configuration file as relative to that
// file, wherever the command is started.
func beside(file, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(file), path)
}

func nest(key string, value any) map[string]any {
	parts := strings.Split(key, ".")
	for _, part := range slices.Backward(parts) {
		value = map[string]any{part: value}
	}
	return value.(map[string]any)
}

// explain puts mapstructure's list of findings on one line, each with its key
// and where it came from. The library leaves values out of them, so a DSN put
// in the wrong place is not shown (a test holds it to that).
func (l *loader) explain(err error) error {
	var found []string
	for _, leaf := range leaves(err) {
		var decode *mapstructure.DecodeError
		if !errors.As(leaf, &decode) {
			found = append(found, leaf.Error())
			continue
		}
		text := inWords(decode.Unwrap())
		if decode.Name() != "" && decode.Name() != reflect.TypeFor[Config]().String() {
			text = decode.Name() + ": " + text
		}
		if origin, known := l.origins[decode.Name()]; known {
			text += fmt.Sprintf(" (from %s)", origin)
		} else if l.file != "" {
			text += fmt.Sprintf(" (in %s)", l.file)
		}
		found = append(found, text)
	}
	slices.Sort(found)
	return errors.New(strings.Join(found, "; "))
}

// inWords says in a file's terms what the library says in Go's.
func inWords(err error) string {
	text := err.Error()
	if keys, unknown := strings.CutPrefix(text, "has invalid keys: "); unknown {
		return "unknown key " + keys
	}
	if kind, is := errors.AsType[*mapstructure.UnconvertibleTypeError](err); is {
		switch reflect.ValueOf(kind.Value).Kind() {
		case reflect.Slice:
			return "it is a list, and must be one value"
		case reflect.Map:
			return "it is a section of keys, and must be one value"
		default:
			return "it is of the wrong kind, and must be a " + kind.Expected.Type().String()
		}
	}
	switch {
	case strings.HasPrefix(text, "expected a map or struct"):
		return "it is a value, and must be a section of keys"
	case strings.HasPrefix(text, "cannot parse value as 'bool'"):
		return "it is neither true nor false"
	case strings.HasPrefix(text, "cannot parse value as 'int'"):
		return "it is not a whole number"
	case strings.HasPrefix(text, "time: "):
		return "it is no duration from 1ns to 2562047h with a unit, such as 30s or 5m"
	}
	return text
}

// leaves takes joined errors apart.
func leaves(err error) []error {
	switch e := err.(type) { //nolint:errorlint // a walk over the tree itself
	case *mapstructure.DecodeError:
		return []error{e}
	case interface{ Unwrap() []error }:
		var all []error
		for _, inner := range e.Unwrap() {
			all = append(all, leaves(inner)...)
		}
		return all
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return leaves(inner)
		}
	}
	return []error{err}
}
