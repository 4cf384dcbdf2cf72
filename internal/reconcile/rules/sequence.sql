-- D02 (K-1.5): tokens come from a sequence that can neither repeat nor reorder.
SELECT 'D02', '', '', 'fencing_token_seq ' || broken.subject, '', '', NULL::timestamptz, '{}'::bigint[], false,
       format('fencing_token_seq %s: %s', broken.what, broken.so), jsonb_build_object('fix', 'ALTER SEQUENCE fencing_token_seq ' || broken.fix)
  FROM (SELECT s.*, s.seqtypid::regtype::text AS kind, c.relpersistence
          FROM pg_class c JOIN pg_sequence s ON s.seqrelid = c.oid
         WHERE c.oid = to_regclass('fencing_token_seq')) s,
       LATERAL (VALUES
         ('cache',     s.seqcache <> 1,           'has CACHE ' || s.seqcache,         'connections grant from blocks of their own, out of order', 'CACHE 1'),
         ('cycle',     s.seqcycle,                'is CYCLE',                         'it would issue tokens again',                              'NO CYCLE'),
         ('increment', s.seqincrement <> 1,       'has INCREMENT ' || s.seqincrement, 'tokens would not rise by one',                             'INCREMENT BY 1'),
         ('type',      s.kind <> 'bigint',        'is of type ' || s.kind,            'it runs out',                                              'AS bigint'),
         ('unlogged',  s.relpersistence <> 'p',   'is not logged',                    'a crash restarts it at 1',                                 'SET LOGGED'),
         ('maximum',   s.seqmax < 9007199254740992, 'ends at ' || s.seqmax,           'it runs out',                                              'NO MAXVALUE')
       ) AS broken (subject, found, what, so, fix)
 -- An integer sequence ends early, and is told once.
 WHERE broken.found AND NOT (broken.subject = 'maximum' AND s.kind <> 'bigint')
UNION ALL
SELECT 'D02', '', '', 'fencing_token_seq absent', '', '', NULL, '{}', false, 'there is no fencing_token_seq: nothing issues tokens', NULL
 WHERE to_regclass('fencing_token_seq') IS NULL
