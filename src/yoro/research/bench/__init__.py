"""The bench: reproduces published tables.

A `plan` names `cells`. The `runner` opens what each of them names (`cell_loading`), reads the responses they share
(`response_cache`), runs a method on its `context`, and saves the `results`; `run_forecast` is the dry run. `methods`,
`datasets` and `tables` are what is run, on what, and how it is shown.
"""
