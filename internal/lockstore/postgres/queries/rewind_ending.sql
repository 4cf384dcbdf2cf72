-- The journal believes it of who may become the owner (K-11).
SELECT set_config('dlock.ending', 'void', true);
