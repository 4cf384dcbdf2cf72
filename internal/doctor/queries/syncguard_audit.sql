-- $1: the audit's name as SQL has it. Whether it is there, and guarded against
-- every change.
SELECT to_regclass($1::text) IS NOT NULL,
       EXISTS (SELECT FROM pg_trigger WHERE tgrelid = to_regclass($1::text) AND tgname = 'append_only' AND tgenabled = 'A');
