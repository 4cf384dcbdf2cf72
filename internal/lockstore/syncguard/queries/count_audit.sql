SELECT count(*) FILTER (WHERE action = 'revoke'), count(*) FILTER (WHERE action <> 'revoke') FROM dlockctl_syncguard_audit;
