"""The mathematics of one pass: statistics of responses, shrinkage, leave-one-out, and the mapping they give."""
