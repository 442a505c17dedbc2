"""Finding, reading, splitting and batching data."""
