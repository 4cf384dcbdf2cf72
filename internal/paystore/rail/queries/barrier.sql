-- What a token must be above at the rail: the account's mark, and the floor (K-4.12).
SELECT coalesce((SELECT h.highest_token FROM rail_high_water h WHERE h.account_id = :account_id), 0),
       coalesce((SELECT f.floor_token FROM fence_floor f WHERE f.point = 'rail'), 0);
