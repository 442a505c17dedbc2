"""Peer methods: training-free classifiers on the same responses, each behind the same two calls.

`fit(task)` returns a scorer, and `scorer(responses)` returns scores (n, classes). A file holds one published method and
its variants; `methods.py` lists them by name, `shared_responses.py` reads what they are compared on.
"""
