package devenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"

	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
)

// Fetcher puts PostgreSQL 16 binaries into the folder into, which does not exist yet, as into/bin, into/lib,
// into/share. It may keep what it downloaded in the folder cache.
type Fetcher func(ctx context.Context, into, cache string) error

// Download is the Fetcher that uses the library embedded-postgres. An empty URL is the library's own repository of
// Maven artifacts, any other a mirror of it.
func Download(repositoryURL string) Fetcher {
	config := embeddedpostgres.DefaultConfig()
	if repositoryURL != "" {
		config = config.BinaryRepositoryURL(repositoryURL)
	}
	return func(ctx context.Context, into, cache string) error { return download(ctx, config, into, cache) }
}

// download lets the library fetch and unpack, and nothing else. It has one entry, Start, that goes on to initdb as
// the caller; a superuser name that initdb refuses at once, whoever calls it, ends that step before it makes anything.
func download(ctx context.Context, config embeddedpostgres.Config, into, cache string) error {
	port, err := cluster.FreePort(ctx)
	if err != nil {
		return err
	}
	server := embeddedpostgres.NewDatabase(config.
		Version(embeddedpostgres.V16).
		Port(uint32(port)). //nolint:gosec // G115: FreePort stays below 65536
		Username("pg_not_to_be_started").
		BinariesPath(into).
		CachePath(cache).
		RuntimePath(filepath.Join(cache, "runtime")).
		Logger(io.Discard))
	started := make(chan error, 1)
	go func() { started <- server.Start() }()
	select {
	case err = <-started:
	case <-ctx.Done(): // the library takes no context; what it still does ends with this process
		return fmt.Errorf("wait for the download: %w", context.Cause(ctx))
	}
	if _, statErr := os.Stat(filepath.Join(into, "bin", "initdb")); statErr == nil {
		return nil
	}
	if err == nil {
		err = errors.New("the archive holds no bin/initdb")
	}
	return err
}

// fetchBinaries downloads into the folder pgsql. Seen tells what the machine had that could not be used.
func (e *Env) fetchBinaries(ctx context.Context, seen string) (binaries, error) {
	e.progress("no PostgreSQL %d or newer on this machine%s; downloading PostgreSQL %d", minMajor, seen, targetMajor)
	into := filepath.Join(e.dir, "pgsql")
	fail := func(err error) (binaries, error) {
		return binaries{}, fmt.Errorf("no PostgreSQL found%s and download failed: %w; install postgresql-%d or set --pg-bin",
			seen, diskFull(err), targetMajor)
	}
	if err := os.RemoveAll(into); err != nil { // a half of an earlier try
		return fail(err)
	}
	if err := e.opts.Fetch(ctx, into, filepath.Join(e.dir, "download")); err != nil {
		return fail(err)
	}
	// The library leaves 0700, and the servers' user must enter.
	if err := os.Chmod(into, 0o755); err != nil { //nolint:gosec // G302: programs, no secrets
		return fail(err)
	}
	dir := filepath.Join(into, "bin")
	version, err := cluster.ReadVersion(ctx, dir, e.account)
	if err != nil {
		return fail(err)
	}
	return binaries{dir: dir, version: version}, nil
}
