-- Whether the operator log has come along from that instance.
SELECT EXISTS (SELECT FROM operator_log WHERE system_identifier = :system_identifier);
