"""One plan on a Ray cluster: python examples/bench_ray.py configs/watermark.toml /shared/results 16 [published].

Every worker has a graphics card of its own and computes whatever cell no other one has claimed.
"""

import sys
from pathlib import Path

from yoro.research.bench.datasets import data_roots
from yoro.research.bench.plan import read_plan
from yoro.research.bench.results import Results
from yoro.research.bench.runner import RunSettings, run_plan


def work(plan: str, results: str, variant: str = "protocol") -> str:
    """Be one worker until every cell that the paper has a number for has a result; how it went, in a sentence."""
    chosen = read_plan(plan, variant).of_counterparts("own", "cited")
    return str(run_plan(chosen, Results(Path(results)), RunSettings(data_roots([]))))


if __name__ == "__main__":
    import ray

    ray.init(address="auto")
    remote = ray.remote(num_gpus=1, max_retries=-1)(work)  # a worker that dies is started again
    for line in ray.get([remote.remote(*sys.argv[1:3], *sys.argv[4:]) for _ in range(int(sys.argv[3]))]):
        print(line)
