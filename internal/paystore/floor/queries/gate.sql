-- No row at all is a closed gate.
SELECT instance_system_identifier(), instance_timeline(),
       g.one IS NOT NULL, coalesce(g.system_identifier, 0), coalesce(g.timeline_id, 0),
       coalesce(g.closed_by, ''), g.closed_at, coalesce(g.closed_reason, '')
  FROM (VALUES (1)) one LEFT JOIN pay_gate g ON true;
