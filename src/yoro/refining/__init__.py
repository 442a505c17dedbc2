"""Few-pass refinement (YORO-FP): a visual prompt trained through a frozen source."""
