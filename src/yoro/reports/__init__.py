"""Pages and drawings for people."""
