"""A visual prompt trained through a frozen source: YORO-FP, and published methods."""
