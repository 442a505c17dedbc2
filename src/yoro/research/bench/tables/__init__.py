"""Tables and figures of a plan.

Results stand in a `run_grid`; `plan_tables` makes each `table` of numbers, with those of the `paper` beside them.
A table becomes text by `table_writers`, or a `page` with `figures`; `long_form` is for machines.
"""
