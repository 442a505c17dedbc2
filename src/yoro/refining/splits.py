"""Which images are trained on and which decide; what a model was fitted on may not decide."""

from __future__ import annotations

from collections.abc import Sequence

from yoro.data.examples import Example
from yoro.data.find import find
from yoro.data.streams import is_response_data
from yoro.errors import InputError

FITTED = (
    "It would answer them rightly from memory, and nothing could improve on that. Give other images with --val "
    "(val=...), or fit and refine in one go, which holds some out: yoro fit DATA --refine 20 (yoro.fit(refine=20))."
)
TRAINED = "Give images that are not trained on with --val (val=...)."


def split_examples(data: object, val: object | None) -> tuple[list[Example], list[Example]]:
    """Training and validation examples: `val`, or the val split of the data; test splits are left alone."""
    if is_response_data(data) or (val is not None and is_response_data(val)):
        raise InputError("A prompt is trained on images, not on responses; give folders or lists of images.")
    found = find(data)
    held = [example for example in found if example.split == "val"] if val is None else _held(val)
    if not held:
        raise InputError(
            "Refinement needs validation images to decide by: give them with --val (val=...), or as a folder 'val' "
            "beside 'train'."
        )
    names = found.splits
    train = [e for e in found if (e.split == "train" if "train" in names else e.split not in ("val", "test"))]
    if not train:
        raise InputError(f"The data have the splits {', '.join(names)} but no training images.")
    return train, held


def refuse_shared(known: set[bytes], digests: Sequence[bytes], names: Sequence[str], *, fitted: bool) -> None:
    """Raise if contents of validation images are among those that the model was fitted on, or is trained on."""
    shared = [name for digest, name in zip(digests, names, strict=True) if digest in known]
    if shared:
        what = "the model was fitted on" if fitted else "are among the training images"
        raise InputError(
            f"{len(shared):,} of {len(names):,} validation images {what}, such as {shared[0]!r}. "
            f"{FITTED if fitted else TRAINED}"
        )


def _held(val: object) -> list[Example]:
    """All of what was given to validate on; of data with splits, the val split, else what is no test data."""
    found = find(val)
    if "val" in found.splits:
        return list(found.select("val"))
    return [example for example in found if example.split != "test"]
