"""What reproduces published numbers and no user of a classifier should do.

A `plan` names `cells`. The `runner` opens what each of them names (`cell_loading`), reads the responses that they
share (`response_cache`), gives a method its `context`, and keeps what comes of it (`results`); `forecast` says
beforehand what a run would do. `methods` are what is run, `datasets` what it is run on, `tables` what is shown of it.
"""
