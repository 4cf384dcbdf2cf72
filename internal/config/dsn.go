package config

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// shownParams are the parts of a connection string that say where it leads. All
// else may be a secret, now or in a later version of the driver.
func shownParams() []string {
	return []string{"host", "hostaddr", "port", "dbname", "user", "service", "sslmode", "application_name", "target_session_attrs"}
}

var keyword = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\s*([a-z_]+)\s*=\s*('(?:[^'\\]|\\.)*'|(?:[^\s'\\]|\\.)*)(?:\s+|$)`)
})

// IsDSN tells a connection string from the path of a file.
func IsDSN(text string) bool {
	return isURL(text) || keyword().MatchString(text)
}

func isURL(text string) bool {
	return strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://")
}

// MaskDSN shows where a connection string leads, and dots for all else. One
// that it cannot read to the end is dots altogether.
func MaskDSN(dsn string) string {
	switch {
	case dsn == "":
		return ""
	case isURL(dsn):
		return maskURL(dsn)
	default:
		return maskKeywords(dsn)
	}
}

func maskURL(dsn string) string {
	u, err := url.Parse(dsn)
	if err != nil || u.Fragment != "" {
		return masked
	}
	shown := u.Scheme + "://"
	if u.User != nil {
		shown += url.User(u.User.Username()).String()
		if _, given := u.User.Password(); given {
			shown += ":" + masked
		}
		shown += "@"
	}
	shown += u.Host + u.EscapedPath()
	var params []string
	for name, values := range u.Query() {
		for _, value := range values {
			if slices.Contains(shownParams(), name) {
				params = append(params, name+"="+url.QueryEscape(value))
			} else {
				params = append(params, url.QueryEscape(name)+"="+masked)
			}
		}
	}
	if len(params) > 0 {
		slices.Sort(params)
		shown += "?" + strings.Join(params, "&")
	}
	return shown
}

func maskKeywords(dsn string) string {
	var shown []string
	for rest := strings.TrimSpace(dsn); rest != ""; {
		match := keyword().FindStringSubmatch(rest)
		if match == nil {
			return masked
		}
		if slices.Contains(shownParams(), match[1]) {
			shown = append(shown, match[1]+"="+match[2])
		} else {
			shown = append(shown, match[1]+"="+masked)
		}
		rest = rest[len(match[0]):]
	}
	return strings.Join(shown, " ")
}
