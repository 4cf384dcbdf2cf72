-- A guard's trigger stands, and its function lets everything pass.
-- @paydb
CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
-- @finding
0, NULL, NULL, 'refuse_change()'
