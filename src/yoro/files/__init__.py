"""Files: whole or not at all."""
