SELECT floor_token FROM fence_floor WHERE point = :point FOR UPDATE;
