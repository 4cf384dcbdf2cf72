package cluster

import (
	"context"
	"os/exec"
)

// CopyOf makes the data folder of this instance, whose own folder is there and empty, a plain copy of another's, which
// must not run. What it copies belongs to the server's user, so that user copies it: the caller, who may be root, reads
// and writes no name in there.
func (c Cluster) CopyOf(ctx context.Context, other Cluster) error {
	if err := c.checkPaths(); err != nil {
		return err
	}
	for _, dir := range []string{c.Data(), c.Run()} {
		if err := c.mkdir(dir); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, "cp", "-a", other.Data()+"/.", c.Data())
	c.Account.prepare(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return c.explain(ctx, "cp", err, string(out))
	}
	return nil
}

// Follow makes the instance, which must not run, a standby at its next start.
func (c Cluster) Follow(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "touch", "standby.signal")
	c.Account.prepare(cmd)
	cmd.Dir = c.Data()
	if out, err := cmd.CombinedOutput(); err != nil {
		return c.explain(ctx, "touch", err, string(out))
	}
	return nil
}
