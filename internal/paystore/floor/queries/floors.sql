SELECT point, floor_token FROM fence_floor ORDER BY point;
