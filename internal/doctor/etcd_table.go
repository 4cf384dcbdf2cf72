package doctor

import "slices"

// EtcdDB is the database of a check of the cluster.
const EtcdDB = "etcd"

// EtcdChecks is the table of the checks of an etcd cluster that keeps the locks: they
// stand in place of lockdb's. Its clock is no matter: leases are counted by how long
// they run.
func EtcdChecks() []Check {
	return []Check{
		{
			ID: "etcd_reachable", Clause: "K-10.1", Severity: Critical, Database: EtcdDB,
			Title: "a quorum of the cluster answers", Meaning: "nothing is granted, renewed or released without it",
			look: etcdReachable,
		},
		{
			ID: "etcd_endpoints", Clause: "K-10.1", Severity: High, Database: EtcdDB,
			Title: "every configured address answers, and all are of one cluster", Meaning: "a client that is on a member which goes needs another; one of a second cluster gives tokens that mean nothing to the first",
			look: etcdEndpoints,
		},
		{
			ID: "etcd_leader", Clause: "K-10.1", Severity: High, Database: EtcdDB,
			Title: "all members know one leader", Meaning: "a member without one answers nobody",
			look: etcdLeader,
		},
		{
			ID: "etcd_quorum", Clause: "K-10.1", Severity: Medium, Database: EtcdDB,
			Title: "three voting members or more, an odd number", Meaning: "grants go on through the loss of a machine only then, which is why one moves here",
			look: onEtcd(etcdQuorum),
		},
		{
			ID: "etcd_version", Clause: "K-10.1", Severity: High, Database: EtcdDB,
			Title: "etcd is " + oldestEtcd + " or newer, and the same everywhere", Meaning: "the backend is tested on 3.7; an older one may set its revision back when it crashes, and issue tokens again",
			look: etcdVersion,
		},
		{
			ID: "etcd_alarms", Clause: "K-10.1", Severity: Critical, Database: EtcdDB,
			Title: "no alarm is raised", Meaning: "with NOSPACE no lock is granted, renewed or released; with CORRUPT the members do not agree on what is held",
			look: onEtcd(etcdAlarms),
		},
		{
			ID: "etcd_space", Clause: "K-10.1", Severity: Medium, Database: EtcdDB,
			Title: "the database is below four fifths of its quota", Meaning: "at the quota NOSPACE is raised, and every write refused",
			look: etcdSpace,
		},
		{
			ID: "etcd_gate", Clause: "K-7.4", Severity: Critical, Database: EtcdDB,
			Title: "the gate is open", Meaning: "closed, no lock is granted",
			look: onEtcd(etcdGate),
		},
		{
			ID: "etcd_rewound", Clause: "K-10.1", Severity: Critical, Database: EtcdDB,
			Title: "the revision is above the floor, in the life in which the gate was opened", Meaning: "a snapshot was restored without --bump-revision: it would issue tokens again that are still in use",
			look: onEtcd(etcdRewound),
		},
		{
			ID: "etcd_tokens_ahead", Clause: "K-7.6", Severity: Critical, Database: EtcdDB,
			Title: "paydb holds no token above the revision", Meaning: "the cluster was set back, or the move from lockdb did not raise it: the next holder is fenced out by tokens of before",
			look: onEtcd(etcdTokensAhead),
		},
		{
			ID: "etcd_mark", Clause: "K-7.6", Severity: Critical, Database: EtcdDB,
			Title: "the outside mark is not above the revision", Meaning: "the mark is what no restore sets back: what was shown may be issued again",
			look: onEtcd(etcdMark),
		},
		{
			ID: "etcd_records", Clause: "K-10.1", Severity: High, Database: EtcdDB,
			Title: "every lock and every session can be read", Meaning: "a lock whose value is no record of it is granted to nobody until an operator revokes it; a session's names no owner",
			look: onEtcd(etcdRecords),
		},
		{
			ID: "etcd_tls", Clause: "K-12.2", Severity: High, Database: EtcdDB,
			Title: "the members are reached over TLS", Meaning: "passwords and session ids are read on the way, and with a session id the right to its locks",
			look: etcdTLS,
		},
		{
			ID: "etcd_auth", Clause: "K-12.1", Severity: High, Database: EtcdDB,
			Title: "not everybody may write", Meaning: "whoever may write takes any lock, and rewrites the audit: etcd has no rights by row",
			look: onEtcd(etcdAuth),
		},
	}
}

// checksFor are those of the backend that keeps the locks, and of what is beside it.
func checksFor(target Target) []Check {
	if target.Etcd == nil {
		return Checks()
	}
	beside := slices.DeleteFunc(Checks(), func(c Check) bool {
		// There is no other instance for paydb to know.
		return c.Database != PayDB && c.Database != Services || c.ID == PayDB+"_peer"
	})
	return slices.Concat(EtcdChecks(), beside)
}
