package doctor

import (
	"slices"
	"strings"
)

// Checks is the table of every check, in the order of what rests on what.
func Checks() []Check {
	return slices.Concat(serverChecks(), guardChecks(), tokenChecks(), settingChecks(), activityChecks(), serviceChecks(), roleChecks())
}

// each is a check of both databases.
func each(check func(database string) Check) []Check {
	var made []Check
	for _, database := range []string{LockDB, PayDB} {
		c := check(database)
		c.Database, c.ID = database, database+"_"+c.ID
		made = append(made, c)
	}
	return made
}

func serverChecks() []Check {
	return slices.Concat(
		each(func(database string) Check {
			return Check{
				ID: "reachable", Clause: "K-6.1", Severity: Critical,
				Title: database + " answers", Meaning: "nothing else can be read without it",
				look: reachable(database),
			}
		}),
		each(func(database string) Check {
			return Check{
				ID: "version", Clause: "K-6.3", Severity: Critical,
				Title: "PostgreSQL is 15 or newer", Meaning: "16 is what everything is tested on first, 15 is supported; an older one lacks what the guards rest on",
				look: on(database, version),
			}
		}),
		each(func(database string) Check {
			return Check{
				ID: "primary", Clause: "K-6.3", Severity: Critical,
				Title: "the server is a primary", Meaning: "nothing is decided from a standby: what it shows may be over, and its sequence is behind",
				look: on(database, primary),
			}
		}),
		[]Check{{
			ID: "instances_distinct", Clause: "K-6.1", Severity: Critical, Database: Both,
			Title: "locks and money stand on two instances", Meaning: "on one instance a single failure takes both, and one restore rewinds the tokens together with the fences that would show it",
			look: distinct,
		}},
		each(func(database string) Check {
			return Check{
				ID: "peer", Clause: "K-6.1", Severity: High,
				Title: database + " knows the other instance", Meaning: "a service that is given one address alone compares with what was recorded, and refuses to start without it",
				look: on(database, peer),
			}
		}),
		each(func(database string) Check {
			return Check{
				ID: "pooler", Clause: "K-12.3", Severity: Low,
				Title: "no transaction pooler stands between", Meaning: "the lock verbs and the services work behind one; dlockctl migrate refuses to, since its lock belongs to a session",
				look: on(database, pooler),
			}
		}),
		each(func(database string) Check {
			return Check{
				ID: "clock", Clause: "K-2.10", Severity: Medium,
				Title: "the server's clock agrees with this machine's", Meaning: "the server's clock decides when a lease ends: one that is put right by a jump forward ends leases that their holders still trust",
				look: on(database, clockOfServer),
			}
		}),
		[]Check{{
			ID: "clocks_agree", Clause: "K-2.10", Severity: Medium, Database: Both,
			Title: "the clocks of the two servers agree", Meaning: "a lease and what was written under it are told in two times: one of the clocks is wrong, and will be put right",
			look: clocksAgree,
		}},
		each(func(database string) Check {
			return Check{
				ID: "schema", Clause: "K-9.5", Severity: Critical,
				Title: "the schema is of a version that this program knows", Meaning: "a program that does not know the schema refuses to open it",
				look: on(database, schemaVersion),
			}
		}),
		each(func(database string) Check {
			return Check{
				ID: "history", Clause: "K-9.3", Severity: High,
				Title: "the migration history is clean", Meaning: "a failed, edited or missing migration means that the schema may not be what its version says",
				look: on(database, history),
			}
		}),
	)
}

func guardChecks() []Check {
	return slices.Concat(
		each(func(database string) Check {
			return Check{
				ID: "guards", Clause: map[string]string{LockDB: "K-1.1", PayDB: "K-4.10"}[database], Severity: Critical,
				Title: "every guard trigger is in place and fires always", Meaning: "without one, tokens are granted out of order, fences go back, or evidence can be changed; one that is not ENABLE ALWAYS is skipped by replication and restore",
				look: on(database, guards),
			}
		}),
		each(func(database string) Check {
			return Check{
				ID: "functions", Clause: "K-1.1", Severity: Critical,
				Title: "the guards' functions are as migrated, with their search_path", Meaning: "a guard that runs another body guards nothing; without a search_path a data-only restore and logical apply fail",
				look: on(database, functions),
			}
		}),
		each(func(database string) Check {
			return Check{
				ID: "gate", Clause: map[string]string{LockDB: "K-7.4", PayDB: "K-7.9"}[database], Severity: Critical,
				Title: "the gate is open, on this instance and timeline", Meaning: map[string]string{
					LockDB: "closed, no lock is granted; on another instance or timeline lockdb was restored, promoted or copied, and may issue tokens again that are still in use",
					PayDB:  "closed, no payout is claimed; on another instance or timeline paydb was restored, promoted or copied, and may have forgotten what it paid",
				}[database],
				look: on(database, gate),
			}
		}),
	)
}

func tokenChecks() []Check {
	return []Check{
		{
			ID: "lockdb_sequence", Clause: "K-1.5", Severity: Critical, Database: LockDB,
			Title: "the token sequence can neither repeat nor reorder", Meaning: "CACHE grants out of order, CYCLE issues tokens again, and an unlogged sequence restarts at 1 after a crash",
			look: on(LockDB, sequence),
		},
		{
			ID: "lockdb_headroom", Clause: "K-1.6", Severity: High, Database: LockDB,
			Title: "tokens are far from their end", Meaning: "no token above 2^53 is granted or accepted anywhere, and a fast-forward needs 2^32 of room",
			look: on(LockDB, headroom),
		},
		{
			ID: "lockdb_tokens_ahead", Clause: "K-7.6", Severity: Critical, Database: Both,
			Title: "no token of paydb is above the last one issued", Meaning: "lockdb was restored, promoted or copied back: the tokens from there on have been given to somebody already",
			look: on(LockDB, tokensAhead),
		},
		{
			ID: "lockdb_mark", Clause: "K-7.6", Severity: Critical, Database: LockDB,
			Title: "the outside mark covers what was issued", Meaning: "a plain copy of lockdb keeps both identifiers: this file is what no restore of lockdb rewinds",
			look: on(LockDB, outsideMark),
		},
		{
			ID: "lockdb_journal_partition", Clause: "K-11", Severity: Medium, Database: LockDB,
			Title: "the journal has a partition for the next token", Meaning: "without one, grants go on and are recorded in DEFAULT, whose rows stand in the way of the partition",
			look: on(LockDB, journalPartition),
		},
		{
			ID: "lockdb_journal_default", Clause: "K-11", Severity: Low, Database: LockDB,
			Title: "the journal's DEFAULT partition is empty", Meaning: "what stands there is never pruned with its range, and is read through each time a partition is made",
			look: on(LockDB, journalDefault),
		},
		{
			ID: "paydb_floors", Clause: "K-4.12", Severity: Critical, Database: PayDB,
			Title: "both fence floors can be read", Meaning: "a floor that is missing refuses every token at its enforcement point",
			look: on(PayDB, floors),
		},
	}
}

func settingChecks() []Check {
	return slices.Concat(
		[]Check{
			{
				ID: "lockdb_synchronous_commit", Clause: "K-1.4", Severity: Medium, Database: LockDB,
				Title: "no default weakens synchronous_commit", Meaning: "the triggers raise it for grants and renewals; what else is written is lost by a crash after it was acknowledged",
				look: on(LockDB, synchronousCommit(Warn)),
			},
			{
				ID: "paydb_synchronous_commit", Clause: "K-5.3", Severity: High, Database: PayDB,
				Title: "no default weakens synchronous_commit", Meaning: "nothing raises it here: an attempt that a crash forgets after the rail was called is forwarded twice",
				look: on(PayDB, synchronousCommit(Fail)),
			},
		},
		each(func(database string) Check {
			return Check{
				ID: "isolation", Clause: map[string]string{LockDB: "K-2.11", PayDB: "K-4.12"}[database], Severity: Low,
				Title: "the default isolation is read committed", Meaning: "this program sets it for itself; another writer's grants and fences are refused under any other",
				look: on(database, isolation),
			}
		}),
		[]Check{{
			ID: "lockdb_idle_timeout", Clause: "K-2.11", Severity: Medium, Database: LockDB,
			Title: "each login of lockapp has an idle_in_transaction_session_timeout", Meaning: "a transaction that acquired and then does nothing blocks its key past its lease",
			look: on(LockDB, idleTimeout),
		}},
	)
}

func activityChecks() []Check {
	return slices.Concat(
		[]Check{
			{
				ID: "lockdb_standbys", Clause: "K-7.1", Severity: Medium, Database: LockDB,
				Title: "a fail-over loses no grant", Meaning: "a standby that no commit waits for has not seen the last tokens when it is promoted, and issues them again",
				look: on(LockDB, standbys),
			},
			{
				ID: "lockdb_lapsed", Clause: "K-2.4", Severity: Low, Database: LockDB,
				Title: "what has lapsed is cleared away", Meaning: "nobody reaps: the lock server's reaper does about once a second",
				look: on(LockDB, lapsed),
			},
		},
		each(func(database string) Check {
			return Check{
				ID: "long_transactions", Clause: map[string]string{LockDB: "K-2.11", PayDB: "K-7.8"}[database], Severity: Medium,
				Title: "no transaction is open for long", Meaning: "one that acquired blocks its key past the lease, one that posts blocks the barrier of a fast-forward",
				look: on(database, longTransactions),
			}
		}),
		each(func(database string) Check {
			return Check{
				ID: "connections", Clause: "K-6.2", Severity: Medium,
				Title: "there is room for connections", Meaning: "whoever comes next is refused: a service that restarts, or the person who would look why",
				look: on(database, connections),
			}
		}),
	)
}

func serviceChecks() []Check {
	var checks []Check
	for _, s := range []struct{ name, meaning string }{
		{lockServer, "whoever acquires through it is refused"},
		{paymentResource, "no payout moves; with fencing off a stale holder debits an account"},
		{railProxy, "nothing reaches the rail; with fencing off one payout is paid twice"},
	} {
		checks = append(checks, Check{
			ID: "service_" + strings.ReplaceAll(s.name, "-", "_"), Clause: "K-4.5", Severity: High, Database: Services,
			Title: s.name + ", where one is configured, is ready and fences", Meaning: s.meaning,
			look: service(s.name),
		})
	}
	return checks
}

func roleChecks() []Check {
	checks := slices.Concat(
		each(func(database string) Check {
			return Check{
				ID: "roles", Clause: "K-9.5", Severity: Critical,
				Title: "the group roles are there, and are no more than that", Meaning: "one that may log in, or is a member of another, has rights that the contract gives to nobody",
				look: on(database, roles),
			}
		}),
		each(func(database string) Check {
			return Check{
				ID: "service_logins", Clause: "K-12.1", Severity: High,
				Title: "no login is two things at once", Meaning: "a service that is the owner as well can take its own guards off; payment and rail under one login are one enforcement point",
				look: on(database, serviceLogins),
			}
		}),
	)
	for _, p := range rolePrivileges() {
		checks = append(checks, Check{
			ID: p.database + "_privileges_" + p.role, Clause: p.clause, Severity: p.severity, Database: p.database,
			Title: p.role + " may do what it must, and nothing else", Meaning: p.meaning,
			look: on(p.database, privilegesOf(p.role)),
		})
	}
	return slices.Concat(checks,
		each(func(database string) Check {
			return Check{
				ID: "privileges_others", Clause: "K-12.1", Severity: Critical,
				Title: "PUBLIC has no rights, and nobody else may write", Meaning: "a right of PUBLIC is everybody's; a writer that is none of the group roles passes by what they are refused",
				look: on(database, privilegesOfOthers),
			}
		}),
		each(func(database string) Check {
			return Check{
				ID: "owner", Clause: "K-9.5", Severity: High,
				Title: "every object belongs to dlock_owner", Meaning: "an owner can take the guards off what it owns",
				look: on(database, owner),
			}
		}),
		each(func(database string) Check {
			return Check{
				ID: "login", Clause: "K-12.1", Severity: Low,
				Title: "the login in use is no superuser", Meaning: "a superuser is refused nothing, so that a slip of an operator is not either",
				look: on(database, login),
			}
		}),
	)
}
