"""Images: found, decoded, split and handed on in batches; broken files are named, never fatal."""
