package etcd

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

const (
	// DefaultDialTimeout bounds Open.
	DefaultDialTimeout = 5 * time.Second
	// DefaultTimeout bounds one request to the cluster: an election takes one to two
	// seconds, and a try never hangs (K-2.11).
	DefaultTimeout = 5 * time.Second
	// pingEvery and pingTimeout find a connection that nobody answers on any more.
	pingEvery, pingTimeout = 10 * time.Second, 3 * time.Second
)

// Purpose says what a store is opened for.
type Purpose int

// The purposes.
const (
	// Reading needs a cluster that answers.
	Reading Purpose = iota
	// Changing is the same; release, revoke, end and reap go on while grants are
	// closed.
	Changing
	// Granting needs an open gate and a revision above the floor as well.
	Granting
)

// Options configure Open.
type Options struct {
	// Endpoints are the members' client addresses, such as https://etcd-1:2379.
	// Required; more than one lets a client go on without the member it was on.
	Endpoints []string
	// TLS is how to trust the cluster and, with a certificate, who this is. Nil is
	// plain text, or the system's roots where an endpoint says https.
	TLS *tls.Config
	// Username and Password log in where etcd's authentication is on.
	Username, Password string
	// Prefix is where all of the store's keys are; default DefaultPrefix.
	Prefix string
	// DialTimeout bounds Open; default DefaultDialTimeout.
	DialTimeout time.Duration
	// Timeout bounds each request; default DefaultTimeout.
	Timeout time.Duration
	// Purpose defaults to Reading.
	Purpose Purpose
	// MarkDir is the folder of the outside mark (K-7.6), "" for none. All who
	// grant on one cluster name the same folder.
	MarkDir string
	// PayHighest returns the highest token that paydb holds, nil where there is no
	// paydb or it is not known. It is called once, before the first grant.
	PayHighest func(context.Context) (lockstore.Token, error)

	// between is a test's: what stands between the store and the cluster.
	between func(clientv3.KV) clientv3.KV
}

// Store is a lockstore.Store on an etcd cluster.
type Store struct {
	client  *clientv3.Client
	kv      clientv3.KV
	keys    keys
	options Options
	grants  recent
	leases  leases
	told    expiries
	login   *login
	// reaperLooks counts the looks for sessions that have lapsed.
	reaperLooks atomic.Uint64
	// detector notices that the cluster was set back.
	detector *detector
}

var _ lockstore.Store = (*Store)(nil)

// Capabilities declares what this backend is.
func (s *Store) Capabilities() lockstore.Capabilities {
	return lockstore.Capabilities{
		Backend: "etcd", Sessions: true, GlobalTokens: true, Journal: true,
		LeaseStep: time.Second, WriterTimes: true, EndsUntimed: true, BulkLimit: bulkLimit,
	}
}

// Open connects to the cluster and asks it once. Returns *lockstore.UnreachableError
// when it does not answer with a quorum within DialTimeout, or refuses the login;
// *lockstore.GrantsClosedError when it is opened for granting and grants nothing.
func Open(ctx context.Context, opts Options) (*Store, error) {
	if len(opts.Endpoints) == 0 {
		return nil, fmt.Errorf("%w: no endpoint of the etcd cluster; give at least one, such as https://etcd-1:2379", lockstore.ErrInvalid)
	}
	names, err := newKeys(opts.Prefix)
	if err != nil {
		return nil, err
	}
	opts.DialTimeout = cmp.Or(opts.DialTimeout, DefaultDialTimeout)
	opts.Timeout = cmp.Or(opts.Timeout, DefaultTimeout)
	if opts.Password == "" {
		opts.Username = "" // nobody has checked it, and the audit shall not name it
	}
	login := &login{user: opts.Username}
	opts.TLS = login.listen(opts.TLS)
	detector := newDetector()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: opts.Endpoints, TLS: opts.TLS, Username: opts.Username, Password: opts.Password,
		DialTimeout: opts.DialTimeout, DialKeepAliveTime: pingEvery, DialKeepAliveTimeout: pingTimeout,
		DialOptions: []grpc.DialOption{grpc.WithStatsHandler(sentHandler{}), grpc.WithStatsHandler(detector)},
		// What goes wrong is in the errors; a library writes to nobody's terminal.
		Logger: zap.NewNop(),
	})
	if err != nil {
		return nil, &lockstore.UnreachableError{Doing: "open the etcd cluster", Err: err}
	}
	s := &Store{client: client, kv: client, keys: names, options: opts, detector: detector, login: login}
	if opts.between != nil {
		s.kv = opts.between(client)
	}
	if err := s.check(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// check asks the cluster for something that only a quorum can answer.
func (s *Store) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.DialTimeout)
	defer cancel()
	const doing = "open the etcd cluster"
	answer, err := s.read(ctx, doing, clientv3.OpGet(s.keys.gate()), clientv3.OpGet(s.keys.floor()))
	if unreachable := (*lockstore.UnreachableError)(nil); err != nil && !errors.As(err, &unreachable) {
		// Such as a user that may read nothing here.
		err = &lockstore.UnreachableError{Doing: doing, Err: errors.Unwrap(err)}
	}
	if err != nil {
		return err
	}
	return s.guardOpen(ctx, answer)
}

// Close closes the connections. Nothing is given back: locks and sessions live on
// until their leases end.
func (s *Store) Close() {
	s.detector.close()
	_ = s.client.Close()
}
