"""Many cores, many machines: the one pass on Ray."""
