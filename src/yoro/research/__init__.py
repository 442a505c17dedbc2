"""Research: what the paper's tables need, and users of a classifier do not.

- `comparing`: `yoro.compare`, every method on the same responses in one table.
- `peers`: the training-free methods that are compared, a file each, behind `fit(task)`.
- `baselines`: published reprogramming methods that train a prompt (label mappings, AttrVR, DVP, AutoVP, DGA); torch.
- `bench`: plans of datasets, sources and methods, run cell by cell, and the tables and figures of their results.

Only `yoro.cli` imports this package, and `yoro` itself when `yoro.compare` is first used.
"""
