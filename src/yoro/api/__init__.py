"""What a person holds in Python: the classifier with its reports, tables, plots and comparisons."""
