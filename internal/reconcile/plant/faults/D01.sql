-- Since the sealed run the sequence went back, by less than the gap above the last
-- token in use: nothing in either database is above it. The fresh tokens of the scene
-- were not used.
-- @lockdb
SELECT setval('fencing_token_seq', min(f1) - 50) FROM scene;
-- @finding
0, NULL, NULL, NULL
