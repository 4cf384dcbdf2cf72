-- The same question that the triggers ask at each grant, for a clear answer at
-- open.
SELECT lock_gate_check();
