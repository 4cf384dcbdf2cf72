SELECT deployment_id::text, kept FROM outside_mark;
