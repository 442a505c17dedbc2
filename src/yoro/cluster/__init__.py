"""Many machines, many parties: shards of one fit, made apart and added up."""
