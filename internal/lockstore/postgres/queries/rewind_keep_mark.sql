SELECT outside_mark_keep();
