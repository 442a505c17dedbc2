"""Methods that do the same job as a label mapping, each behind the same two verbs.

`fit(task)` gives a scorer, and `scorer(responses)` gives scores (n, classes). One file a method;
`methods.py` lists them by name.
"""
