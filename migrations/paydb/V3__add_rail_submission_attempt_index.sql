-- One forwardable attempt per payout, ever: C1 1.5, to the letter (K-9.2). NULL,
-- ACKED, REJECTED and TIMEOUT hold the slot for ever; only FENCED does not (K-5.3).
-- Locks: SHARE on rail_submission while the index is built.

CREATE UNIQUE INDEX rail_submission_attempt_uidx ON rail_submission (payout_id)
    WHERE outcome IS DISTINCT FROM 'FENCED';
