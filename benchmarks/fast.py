"""What `--fast` chooses and what that costs: every canvas it may read, on the same images, against the default.

Run: python fast.py [FOLDER ...] [--shots 16] [--sample 200] [--tested 40]

Data as for accuracy.py. The choice is made on a sample of the whole pool, of so many images; the accuracy is that of
fits of so many images a class. Milliseconds are of the processor, for reading one image.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from accuracy import draw, fitted, read, tasks
from timing import print_machine, print_table
from yoro.model import fast_source
from yoro.model.fast_source import choose_fast
from yoro.model.pipeline import make_pipeline
from yoro.model.settings import DEFAULT_SOURCE, FitSettings, PipelineSettings, fast_sources


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--shots", type=int, default=16, help="images a class")
    parser.add_argument("--sample", type=int, default=200, help="images that the choice is made on")
    parser.add_argument("--tested", type=int, default=40, help="images a class of a folder to test on, at most")
    options = parser.parse_args()
    print_machine()
    fast_source.SHARE, fast_source.MOST = 1, options.sample
    sources = (DEFAULT_SOURCE, *fast_sources())
    rows = []
    for task in tasks(options.folders, options.tested):
        labels, test = task.labels, slice(len(task.pool), None)
        drawn = draw(labels, len(task.pool), options.shots, 0)
        wanted = np.unique(np.concatenate([drawn, np.arange(len(task.pool), len(labels))]))
        chosen, told = choose_fast(task.pool, FitSettings(preset="fast"))
        cells = []
        for source in sources:
            seen = read(task, make_pipeline(PipelineSettings(source=source)), wanted)
            mapping = fitted(seen.layout, seen.responses[drawn], labels[drawn])
            right = (mapping.predict(seen.responses[test]) == labels[test]).mean()
            mark = "*" if source == chosen.pipeline.source else ""
            cells.append(f"{mark}{100 * right:.1f} ({1e3 * seen.seconds:.1f} ms)")
        rows.append([task.name, *cells])
        print(*rows[-1], told, sep="  ", flush=True)
    title = f"Test accuracy (%), {options.shots} images a class, and milliseconds an image; *: what --fast chooses"
    print_table(title, ["data", *sources], rows)


if __name__ == "__main__":
    main()
