"""Ray as an engine of the one pass: many cores, many machines."""
