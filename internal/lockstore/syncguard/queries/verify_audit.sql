-- Whether the trigger that refuses every change is in force for everybody.
SELECT coalesce((SELECT t.tgenabled = 'A' FROM pg_trigger t WHERE t.tgrelid = to_regclass(:audit_table) AND t.tgname = 'append_only'), false);
