"""What a user writes; `make check` holds it against a strict type checker."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import yoro

names: list[str] = ["a.jpg", "b.jpg"]
paths: list[Path] = [Path(name) for name in names]
images: NDArray[np.uint8] = np.zeros((2, 32, 32, 3), dtype=np.uint8)

classifier = yoro.fit("photos", shrinkage="loo", workers=0)
classifier = yoro.fit(names, ["cat", "dog"])
labels: list[str | int] = classifier.predict(["a.jpg"])
for data in (names, paths):
    labels += classifier.predict(data)
labels += classifier.predict(Path("folder"))
labels += classifier.predict(images)
labels += classifier.predict(list(images))
probabilities: NDArray[np.float64] = classifier.predict_proba(names)
sets: list[list[str | int]] = classifier.predict_sets(paths, 0.9)
accuracy: float = classifier.evaluate(names, ["cat", "dog"]).accuracy
classes: tuple[str | int, ...] = classifier.classes
table = classifier.to_frame(names, top=2, threshold=0.5, unknown=0.05)
classifier.update(names, ["cat", "dog"])
again: yoro.Classifier = yoro.load("m.yoro")
again.merge(classifier)
