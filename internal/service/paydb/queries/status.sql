-- What readiness tells of paydb. A standby knows no insert position, so its gate is
-- not asked for. No row in the gate is a closed one; no row of a floor refuses every
-- token at that point. The last one names the database, as instance.Identity does.
SELECT pg_is_in_recovery(),
       CASE WHEN pg_is_in_recovery() THEN true
            ELSE EXISTS (SELECT FROM pay_gate g
                          WHERE g.timeline_id = instance_timeline() AND g.system_identifier = instance_system_identifier())
       END,
       coalesce((SELECT g.closed_by FROM pay_gate g), ''),
       coalesce((SELECT g.closed_reason FROM pay_gate g), ''),
       EXISTS (SELECT FROM fence_floor f WHERE f.point = :point),
       (SELECT c.system_identifier || '/' || d.oid
          FROM pg_control_system() c, pg_database d WHERE d.datname = current_database());
