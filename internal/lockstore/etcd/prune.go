package etcd

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

var _ lockstore.JournalPruner = (*Store)(nil)

// PruneJournal takes the oldest grants out of the journal, lowest tokens first, as far
// as the params allow (K-11), a part at a time, each in one transaction with its record
// in the operator log. How old a grant is, is told by the clock of whoever ended it. A
// journal that is never pruned fills etcd's quota: some 300 bytes a grant.
func (s *Store) PruneJournal(ctx context.Context, params lockstore.JournalPruneParams) (lockstore.JournalPrune, error) {
	pruned := lockstore.JournalPrune{Dropped: []lockstore.JournalPartition{}}
	if err := params.Valid(); err != nil {
		return pruned, err
	}
	standing, err := s.lowestStanding(ctx)
	if err != nil {
		return pruned, err
	}
	// What is true of this only becomes truer: no grant begins any more with a token
	// below one that stands.
	keep := func(token lockstore.Token, record grantRecord) string {
		switch age := now().Sub(record.EndedAt); {
		case standing != 0 && standing < token:
			return fmt.Sprintf("the grant with token %s has not ended", standing)
		case params.Below != 0 && params.Below <= token:
			return fmt.Sprintf("a payout that is not final was claimed under token %s", params.Below)
		case age <= params.OlderThan:
			return fmt.Sprintf("its end, at %s, is younger than %s", shown(record.EndedAt), params.OlderThan)
		}
		return ""
	}
	for from := lockstore.Token(0); ; {
		part, why, err := s.oldest(ctx, from, keep)
		if err != nil {
			return pruned, err
		}
		if part.Grants > 0 {
			if err := s.dropPart(ctx, part, params); err != nil {
				return pruned, err
			}
			pruned.Dropped = append(pruned.Dropped, part)
			from = part.To
		}
		switch {
		case why != "":
			kept := lockstore.JournalPartition{Name: partName(part.To), From: part.To}
			pruned.Kept, pruned.Why = &kept, why
			return pruned, nil
		case part.Grants < page:
			return pruned, nil
		}
	}
}

func (s *Store) lowestStanding(ctx context.Context) (lockstore.Token, error) {
	got, err := s.read(ctx, "find the lowest token that stands", clientv3.OpGet(s.keys.locks(), clientv3.WithPrefix(),
		clientv3.WithKeysOnly(), clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortAscend), clientv3.WithLimit(1)))
	if err != nil || got.kv(0) == nil {
		return 0, err
	}
	return lockstore.Token(got.kv(0).ModRevision), nil
}

func partName(from lockstore.Token) string { return "grant/" + number(int64(from)) }

// oldest reads the next part from a token on, as far as it may go; why tells what of
// the first that may not.
func (s *Store) oldest(ctx context.Context, from lockstore.Token, keep func(lockstore.Token, grantRecord) string) (part lockstore.JournalPartition, why string, err error) {
	part = lockstore.JournalPartition{From: from, To: from}
	got, err := s.read(ctx, "read the grant journal", clientv3.OpGet(s.keys.grant(from),
		clientv3.WithRange(clientv3.GetPrefixRangeEnd(s.keys.grants())), clientv3.WithLimit(page)))
	if err != nil {
		return part, "", err
	}
	var last time.Time
	for _, kv := range got.kvs(0) {
		n, err := numberAfter(s.keys.grants(), kv)
		if err != nil {
			return part, "", err
		}
		var record grantRecord
		if err := decode(kv, &record); err != nil {
			return part, "", err
		}
		token := lockstore.Token(n)
		if part.Grants == 0 {
			part.Name, part.From = partName(token), token
		}
		if why = keep(token, record); why != "" {
			part.To = token
			break
		}
		if record.EndedAt.After(last) {
			last = record.EndedAt
		}
		part.Grants, part.To, part.LastActivity = part.Grants+1, token+1, shown(last)
	}
	return part, why, nil
}

// dropPart takes a part out, with its record in the operator log.
func (s *Store) dropPart(ctx context.Context, part lockstore.JournalPartition, params lockstore.JournalPruneParams) error {
	if params.DryRun {
		return nil
	}
	doing := "drop the grant journal's part " + part.Name
	for range attempts {
		got, err := s.read(ctx, doing, clientv3.OpGet(s.keys.head(logChain)))
		if err != nil {
			return err
		}
		log, err := s.keys.appendTo(logChain, got.kv(0))
		if err != nil {
			return err
		}
		t := txn{then: []clientv3.Op{clientv3.OpDelete(s.keys.grant(part.From), clientv3.WithRange(s.keys.grant(part.To)))}}
		log.add(operatorRecord{
			Action: lockstore.ActionPruneJournal, Operator: params.Operator, Reason: params.Reason, LoggedAt: now(), LoginRole: s.login.name(),
			Details: []byte(encode(part)),
		})
		log.into(&t)
		done, err := s.change(ctx, doing, t)
		if err != nil || done.done {
			return err
		}
	}
	return fmt.Errorf("%s: the operator log changed %d times meanwhile", doing, attempts)
}
