"""Tables and figures of a plan.

`run_grid` holds the results; `plan_tables` makes each `table` of numbers, with the `paper`'s beside them.
`table_writers` write Markdown and LaTeX, `results_page` HTML with `figures`, and rows for CSV and JSON.
"""
