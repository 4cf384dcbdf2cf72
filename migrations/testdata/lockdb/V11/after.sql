-- Open as it was, and refusing with the command that helps (K-7.4, K-7.6).
SELECT 'gate' FROM lock_gate WHERE closed_by IS NOT NULL OR run_id IS NOT NULL;
SELECT lock_gate_check() IS NULL AND false WHERE false;
SELECT 'search_path', proname FROM pg_proc WHERE proname = 'lock_gate_check' AND proconfig IS NULL;
SELECT 'owner', proname FROM pg_proc WHERE proname = 'lock_gate_check' AND proowner <> 'dlock_owner'::regrole;
DO $$ BEGIN
  UPDATE lock_gate SET run_id = gen_random_uuid();
  RAISE 'a run without a name was accepted';
EXCEPTION WHEN check_violation THEN NULL;
END $$;
DO $$
DECLARE
  advice TEXT;
BEGIN
  UPDATE lock_gate SET run_id = gen_random_uuid(), run_by = 'erin', run_at = now(), run_reason = 'restore';
  PERFORM lock_gate_check();
  RAISE 'an unfinished fast-forward let a grant through';
EXCEPTION WHEN object_not_in_prerequisite_state THEN
  GET STACKED DIAGNOSTICS advice = PG_EXCEPTION_HINT;
  IF advice NOT LIKE '%restore fast-forward%' THEN
    RAISE 'hint: %', advice;
  END IF;
END $$;
