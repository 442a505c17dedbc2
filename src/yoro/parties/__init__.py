"""Several parties: sums of which only the total is seen."""
