package devenv

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
	"github.com/dlockctl/dlockctl/internal/instance"
)

// login is a role that may log in to an instance, with a DSN file of its own.
type login struct {
	name, file string
	// member lists the group roles that it has the rights of.
	member []string
}

// logins are those of an instance: the one of the laptop's owner, and one for each
// service, which has that service's group role and no other (K-4.6).
func logins(instanceName string) []login {
	all := []login{{Login, dsnFile, instance.Roles()}}
	for _, role := range serviceRoles(instanceName) {
		all = append(all, login{Login + "_" + role, dsnFile + "-" + role, []string{role}})
	}
	return all
}

func serviceRoles(instanceName string) []string {
	switch instanceName {
	case LockDB:
		return []string{"lockapp"}
	case PayDB:
		return []string{"payapp_resource", "payapp_rail"}
	}
	return nil
}

// ServiceDSN reads how a service logs in whose group role is lockapp, payapp_resource
// or payapp_rail. It is a secret. It returns *NotUpError before Up has made the login.
func (e *Env) ServiceDSN(role string) (string, error) {
	made, err := e.made()
	if err != nil {
		return "", err
	}
	for _, p := range e.instances() {
		for _, l := range logins(p.name) {
			if l.name != Login+"_"+role {
				continue
			}
			if !made {
				return "", &NotUpError{Name: p.name, Dir: e.dir}
			}
			return p.readDSN(l)
		}
	}
	return "", fmt.Errorf("no service logs in as %s", role)
}

// script makes the login, or gives it its password again.
func (l login) script(password string) string {
	script := fmt.Sprintf("DO $$ BEGIN IF to_regrole('%[1]s') IS NULL THEN CREATE ROLE %[1]s; END IF; END $$;", l.name) +
		fmt.Sprintf("ALTER ROLE %s LOGIN PASSWORD '%s';", l.name, password) +
		// An open transaction that acquired blocks its key past its TTL: K-2.11.
		fmt.Sprintf("ALTER ROLE %s SET idle_in_transaction_session_timeout = '60s';", l.name)
	for _, role := range l.member {
		script += fmt.Sprintf("GRANT %s TO %s;", role, l.name)
	}
	return script
}

// writeDSN writes the login's DSN file for the present port and returns the password,
// a new one when there was none.
func (p *postgres) writeDSN(l login) (password string, err error) {
	if old, err := p.readDSN(l); err == nil {
		if u, err := url.Parse(old); err == nil {
			password, _ = u.User.Password()
		}
	}
	// Only what we made ourselves goes into a statement.
	if password == "" || strings.Trim(password, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" {
		password = rand.Text()
	}
	// A grant waits a second for paydb where the DSN says nothing; a busy laptop takes longer.
	dsn := url.URL{
		Scheme: "postgres", User: url.UserPassword(l.name, password), Host: "127.0.0.1:" + strconv.Itoa(p.rec.Port),
		Path: "/" + p.name, RawQuery: "sslmode=disable&connect_timeout=10",
	}
	if err := cluster.WriteFile(p.dsnPath(l), []byte(dsn.String()+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write the DSN file: %w", err)
	}
	return password, nil
}

func (p *postgres) dsnPath(l login) string { return filepath.Join(p.dir, l.file) }
