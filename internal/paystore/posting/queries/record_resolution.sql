-- What the last one says word for word, in this life of paydb and since its gate was
-- closed (K-7.9), is not said twice.
INSERT INTO payout_resolution (payout_id, source, verdict, evidence, operator, reason)
SELECT :payout_id::uuid, :source::text, :verdict::text, :evidence::jsonb, :operator::text, :reason::text
 WHERE NOT EXISTS (
   SELECT FROM (SELECT r.* FROM payout_resolution r WHERE r.payout_id = :payout_id::uuid ORDER BY r.resolution_id DESC LIMIT 1) last
    WHERE (last.source, last.verdict, last.evidence, last.operator, last.reason)
          = (:source::text, :verdict::text, :evidence::jsonb, :operator::text, :reason::text)
      AND last.system_identifier = instance_system_identifier() AND last.timeline_id = instance_timeline()
      AND last.recorded_at >= coalesce((SELECT g.closed_at FROM pay_gate g), '-infinity'));
