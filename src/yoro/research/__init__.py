"""What the tables of the paper need, and no user of a classifier: the bench, other methods, published baselines."""
