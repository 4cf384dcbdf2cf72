package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// Account is the operating system user a server's processes run as. The zero value is the caller itself.
type Account struct {
	Name   string
	UID    uint32
	GID    uint32
	groups []uint32
	drop   bool
}

// ResolveAccount picks the user to run PostgreSQL as. PostgreSQL refuses to run as root, so root drops to the user
// name, or, when name is empty, to postgres, else nobody. Anybody else runs it as themselves.
func ResolveAccount(name string) (Account, error) {
	if err := supported(); err != nil {
		return Account{}, err
	}
	if os.Geteuid() != 0 {
		return callerAccount(name)
	}
	if name != "" {
		u, err := user.Lookup(name)
		if err != nil {
			return Account{}, fmt.Errorf("run PostgreSQL as %q: %w", name, err)
		}
		return dropTo(u)
	}
	for _, candidate := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(candidate); err == nil {
			return dropTo(u)
		}
	}
	return Account{}, errors.New("run PostgreSQL as an unprivileged user: " +
		"this machine has neither a user postgres nor nobody; create one and name it")
}

func callerAccount(name string) (Account, error) {
	u, err := user.Current()
	if err != nil {
		return Account{}, fmt.Errorf("look up the current user: %w", err)
	}
	if name != "" && name != u.Username {
		return Account{}, fmt.Errorf("run PostgreSQL as %q: only root may switch users, and this is %q; leave it out", name, u.Username)
	}
	return Account{Name: u.Username}, nil
}

func dropTo(u *user.User) (Account, error) {
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return Account{}, fmt.Errorf("user %q has the id %q: %w", u.Username, u.Uid, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return Account{}, fmt.Errorf("user %q has the group %q: %w", u.Username, u.Gid, err)
	}
	if uid == 0 {
		return Account{}, fmt.Errorf("run PostgreSQL as %q: PostgreSQL refuses to run as root; name an unprivileged user", u.Username)
	}
	account := Account{Name: u.Username, UID: uint32(uid), GID: uint32(gid), drop: true}
	ids, err := u.GroupIds()
	if err != nil {
		return Account{}, fmt.Errorf("look up the groups of %q: %w", u.Username, err)
	}
	for _, id := range ids {
		if n, err := strconv.ParseUint(id, 10, 32); err == nil {
			account.groups = append(account.groups, uint32(n))
		}
	}
	return account, nil
}

// prepare makes cmd run as the account, away from the caller's folder (which the account may not be allowed to
// enter) and with an environment of its own, so that no PG… variable of the caller reaches the server.
func (a Account) prepare(cmd *exec.Cmd) {
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	if a.drop {
		runAs(cmd, a.UID, a.GID, a.groups)
	}
}

// EffectiveUID is the user id the server's files belong to.
func (a Account) EffectiveUID() uint32 {
	if a.drop {
		return a.UID
	}
	return uint32(os.Geteuid()) //nolint:gosec // G115: a user id has 32 bits and is not negative here
}

// Own gives a folder just made by the caller to the account.
func (a Account) Own(dir string) error {
	f, err := openFolder(dir)
	if err != nil {
		return fmt.Errorf("open the server's folder: %w", err)
	}
	if err := errors.Join(a.own(f), f.Close()); err != nil {
		return fmt.Errorf("give %s to %q: %w", dir, a.Name, err)
	}
	return nil
}

// own gives an open file or folder, no name that could be exchanged, to the account.
func (a Account) own(f *os.File) error {
	if !a.drop {
		return nil
	}
	return f.Chown(int(a.UID), int(a.GID))
}
