UPDATE pay_gate
   SET system_identifier = instance_system_identifier(), timeline_id = instance_timeline(),
       closed_by = NULL, closed_at = NULL, closed_reason = NULL;
