-- Everything that lockdb knows of a token, in the order of tokens. A grant that stood
-- when V7 began the journal was copied into it, and those below it were not: the
-- journal knows nothing of the tokens before the first grant that is no such copy.
-- installed_on has no time zone: 14 hours are the widest that it can be off. Where V7 came
-- in the first minute of the schema, whatever that is, nothing stood to be copied. A row
-- that somebody wrote may say infinity, which keeps its place in the order of times.
WITH journal AS (
  SELECT coalesce(min(installed_on) FILTER (WHERE version = '7'), min(installed_on)) AT TIME ZONE 'UTC' AS began,
         coalesce(min(installed_on) FILTER (WHERE version = '7') - min(installed_on) FILTER (WHERE version = '1') < interval '1 minute', false) AS empty
    FROM flyway_schema_history
)
SELECT token, kind, lock_key, owner, operator, greatest(least(at, '9999-12-31'), '0001-01-02') AS at, copied
  FROM (
    SELECT fencing_token AS token, 1 AS kind, lock_key, owner_id AS owner, '' AS operator, granted_at AS at,
           NOT (SELECT empty FROM journal)
           AND granted_at < (SELECT began FROM journal) + interval '14 hours'
           AND coalesce(ended_at, 'infinity') > (SELECT began FROM journal) - interval '14 hours' AS copied
      FROM lock_grant
     UNION ALL
    SELECT prev_token, 2, lock_key, prev_owner, operator, revoked_at, false FROM lock_revocation
     UNION ALL
    -- A fence is nobody's grant (K-1.6).
    SELECT token, 3, '', '', operator, logged_at, false FROM operator_log WHERE token IS NOT NULL AND action = 'fence_account'
     UNION ALL
    SELECT fencing_token, 4, lock_key, owner_id, '', acquired_at, false FROM lock_entry
  ) facts
 ORDER BY token;
