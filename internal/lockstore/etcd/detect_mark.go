package etcd

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/mark"
)

// deploymentRecord is the value of meta/deployment: what an outside mark is bound to.
type deploymentRecord struct {
	ID   string `json:"deployment_id"`
	Kept bool   `json:"mark_kept"`
}

func (k keys) deployment() string { return k.meta("deployment") }

// readDeployment reads the record, and its ModRevision.
func (s *Store) readDeployment(ctx context.Context) (found deploymentRecord, mod int64, err error) {
	got, err := s.read(ctx, "read whether an outside mark is kept", clientv3.OpGet(s.keys.deployment()))
	if err != nil || got.kv(0) == nil {
		return found, 0, err
	}
	return found, got.kv(0).ModRevision, decode(got.kv(0), &found)
}

// deployment reads the record and makes it where there is none.
func (s *Store) deployment(ctx context.Context) (deploymentRecord, error) {
	for range attempts {
		found, mod, err := s.readDeployment(ctx)
		if err != nil || mod != 0 {
			return found, err
		}
		id, err := uuid.NewRandom()
		if err != nil {
			return found, fmt.Errorf("make a deployment id: %w", err)
		}
		if done, err := s.writeDeployment(ctx, deploymentRecord{ID: id.String()}, 0); err != nil || done {
			return deploymentRecord{ID: id.String()}, err
		}
	}
	return deploymentRecord{}, errors.New("record the deployment's id: others are faster each time")
}

func (s *Store) writeDeployment(ctx context.Context, record deploymentRecord, mod int64) (bool, error) {
	got, err := s.change(ctx, "record that an outside mark is kept", txn{
		compare: []clientv3.Cmp{unchanged(s.keys.deployment(), mod)},
		then:    []clientv3.Op{clientv3.OpPut(s.keys.deployment(), encode(record))},
	})
	return got.done, err
}

// recordMark says in etcd that an outside mark is kept from now on.
func (s *Store) recordMark(ctx context.Context) error {
	for range attempts {
		if _, err := s.deployment(ctx); err != nil {
			return err
		}
		found, mod, err := s.readDeployment(ctx)
		if err != nil || found.Kept {
			return err
		}
		found.Kept = true
		if done, err := s.writeDeployment(ctx, found, mod); err != nil || done {
			return err
		}
	}
	return errors.New("record that an outside mark is kept: others are faster each time")
}

// openMark names the mark of the deployment, and makes it where there never was one.
func (s *Store) openMark(ctx context.Context) error {
	dir, d := s.options.MarkDir, s.detector
	found, mod, err := s.readDeployment(ctx)
	switch {
	case err != nil:
		return err
	case dir == "" && found.Kept:
		return &lockstore.UnsafeError{
			Clause:  "K-7.6",
			Problem: "the etcd cluster has an outside mark, and this program is not told where: it could not tell a cluster that was copied back",
			Fix:     fmt.Sprintf("set mark_dir to the folder that has dlock-mark-%s.json", found.ID),
		}
	case dir == "":
		return nil
	case mod == 0:
		if found, err = s.deployment(ctx); err != nil {
			return err
		}
	}
	m, err := mark.Open(dir, found.ID)
	if err != nil {
		return &lockstore.UnsafeError{Clause: "K-7.6", Problem: err.Error(), Fix: "set mark_dir to a folder that is there"}
	}
	_, err = m.Read()
	if errors.Is(err, mark.ErrMissing) && !found.Kept {
		_, err = m.Create(ctx, 0)
	}
	if err != nil {
		return s.detector.outside.Refusal(err)
	}
	d.outside.Mark = m
	return nil
}

// keepMark says in etcd that there is a mark, and then in the mark what was issued
// last: the change in between waits for the members' disks, and a crash before it could
// have issued that token again.
func (s *Store) keepMark(ctx context.Context, last lockstore.Token) error {
	found, _, err := s.readDeployment(ctx)
	if err != nil || found.Kept {
		return err
	}
	if err := s.recordMark(ctx); err != nil {
		return err
	}
	_, err = s.detector.outside.Mark.Create(ctx, last)
	return s.detector.outside.Refusal(err)
}

// close has the last word to the mark, after the last grant.
func (d *detector) close() {
	d.closed.Do(func() {
		d.turn <- struct{}{} // kept: nobody compares any more
		close(d.over)
		if d.stop != nil {
			d.stop()
		}
	})
}
