"""Files: atomic writes, safetensors, tables of rows, bounded and restricted reading."""
