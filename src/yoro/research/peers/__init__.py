"""Methods that do the same job as a label mapping, each behind the same two verbs.

`fit(task)` gives a scorer, and `scorer(responses)` gives scores (n, classes). A file holds one method and its kin;
`methods.py` lists them by name.
"""
