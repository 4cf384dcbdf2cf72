-- 0 rows: it stands as high already, or the floor does (K-4.12).
UPDATE account
   SET fence = greatest(fence, :token), updated_at = now()
 WHERE account_id = :account_id AND fence < :token
RETURNING fence;
