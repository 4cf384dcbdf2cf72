package devenv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
	"github.com/dlockctl/dlockctl/internal/devenv/filelock"
)

// Destroy stops the servers and removes what Up made, and nothing else: a folder without the marker is refused, a
// link is never followed, foreign files stay and are named to Progress. Without a folder there is nothing to do.
func (e *Env) Destroy(ctx context.Context) error {
	made, err := e.made()
	if err != nil {
		return err
	}
	if !made {
		if _, err := os.Lstat(e.dir); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return &NotMadeError{Dir: e.dir}
	}
	lock, err := e.lock(ctx)
	if err != nil {
		return err
	}
	return e.destroy(ctx, lock)
}

func (e *Env) destroy(ctx context.Context, lock *filelock.Lock) error {
	if err := e.down(ctx); err != nil {
		return errors.Join(err, lock.Release())
	}
	var errs []error
	for _, p := range append(e.instances(), e.followers()...) {
		errs = append(errs, p.destroy(ctx))
	}
	errs = append(errs, removeTemps(e.dir))
	for _, name := range []string{"pgsql", "download"} {
		errs = append(errs, removeFolder(filepath.Join(e.dir, name)))
	}
	if err := errors.Join(errs...); err != nil {
		return errors.Join(err, lock.Release())
	}
	return errors.Join(e.removeDir(), lock.Remove())
}

// removeDir takes the marker away only when it is the last thing there: with it, the next Up or Destroy still knows
// the folder.
func (e *Env) removeDir() error {
	entries, err := os.ReadDir(e.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // somebody destroyed it while we waited for the lock
	}
	if err != nil {
		return fmt.Errorf("look into %s: %w", e.dir, err)
	}
	foreign := false
	for _, entry := range entries {
		if entry.Name() != marker {
			foreign = true
			e.progress("left alone, not made by dlockctl dev: %s", filepath.Join(e.dir, entry.Name()))
		}
	}
	if foreign {
		return nil
	}
	if err := errors.Join(os.Remove(filepath.Join(e.dir, marker)), os.Remove(e.dir)); err != nil {
		return fmt.Errorf("remove the folder: %w", err)
	}
	return nil
}

// destroy removes the instance's own files by name, then its folder when nothing else is in it.
func (p *postgres) destroy(ctx context.Context) error {
	if err := p.removeHalfMade(ctx); err != nil {
		return err
	}
	info, err := os.Lstat(p.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", p.name, err)
	}
	there, err := p.load()
	if err != nil || !there || !info.IsDir() {
		return err // removeDir names it
	}
	if p.rec.SocketDir != p.cluster().Run() && strings.HasPrefix(p.rec.SocketDir, "/tmp/"+shortSocketPrefix) && p.ownsSocketDir() {
		if err := removeFolder(p.rec.SocketDir); err != nil {
			return err
		}
	}
	for _, name := range []string{"data", "run"} {
		if err := removeFolder(filepath.Join(p.dir, name)); err != nil {
			return err
		}
	}
	names := []string{"postgresql.conf", "pg_hba.conf", "pg_ident.conf", "server.log", "server.log.1", recordFile, dsnFile}
	for _, instanceName := range []string{LockDB, PayDB} {
		for _, role := range serviceRoles(instanceName) {
			names = append(names, dsnFile+"-"+role)
		}
	}
	for _, name := range names {
		if err := os.Remove(filepath.Join(p.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", p.name, err)
		}
	}
	if err := removeTemps(p.dir); err != nil {
		return err
	}
	if err := os.Remove(p.dir); err != nil {
		return p.env.nameForeign(p.dir)
	}
	return nil
}

// nameForeign says what is left in a folder that could not be removed.
func (e *Env) nameForeign(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look into %s: %w", dir, err)
	}
	for _, entry := range entries {
		e.progress("left alone, not made by dlockctl dev: %s", filepath.Join(dir, entry.Name()))
	}
	return nil
}

// removeTemps removes what a killed command was about to rename.
func removeTemps(dir string) error {
	names, err := named(dir, cluster.TempPrefix)
	if err != nil {
		return fmt.Errorf("look for temporary files: %w", err)
	}
	for _, name := range names {
		if err := os.Remove(name); err != nil {
			return fmt.Errorf("remove a temporary file: %w", err)
		}
	}
	return nil
}

// removeFolder removes a folder with all it holds, and leaves a link or a file of that name alone.
func removeFolder(dir string) error {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return nil
}
