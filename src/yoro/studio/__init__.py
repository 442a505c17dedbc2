"""The studio: a page on which a classifier is made by hand."""
