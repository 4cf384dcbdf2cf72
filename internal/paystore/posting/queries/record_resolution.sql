INSERT INTO payout_resolution (payout_id, source, verdict, evidence, operator, reason)
VALUES (:payout_id, :source, :verdict, :evidence, :operator, :reason);
