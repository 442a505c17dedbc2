"""Tables and figures of a plan."""
