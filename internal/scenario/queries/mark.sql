-- C1 1.6 (d), to the letter; a test holds it to paystore/rail's.
INSERT INTO rail_high_water (account_id, highest_token, updated_at)
VALUES (:account_id, :token, now())
ON CONFLICT (account_id) DO UPDATE
   SET highest_token = EXCLUDED.highest_token,
       updated_at    = now()
 WHERE rail_high_water.highest_token < EXCLUDED.highest_token
RETURNING highest_token;
