"""Label mappings: statistics in, an affine map from responses to target classes out."""
