UPDATE fence_floor SET floor_token = :to_token, raised_at = now(), raised_by = :operator, reason = :reason
 WHERE point = :point AND floor_token < :to_token;
