"""Methods of the bench by name (`bench_methods`), their `options`, and how they run: in `one_pass`, by `training`."""
