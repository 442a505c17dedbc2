"""A classifier: fitted in one pass, saved, changed, asked."""
