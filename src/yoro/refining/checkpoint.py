"""Checkpoints of a training: its state after an epoch, written atomically and without pickle."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from yoro.errors import StoreError
from yoro.files.atomic import drafted_folder, write_file
from yoro.files.tensors import Arrays, read_tensors, write_tensors
from yoro.refining.recipe import EpochRecord

KIND = "yoro-training"


@dataclass(frozen=True)
class TrainingState:
    """Everything that the rest of a training depends on."""

    records: list[EpochRecord]
    chosen: int
    now: Arrays  # prompt, head and optimiser after the last epoch
    best: Arrays  # prompt and head of the chosen epoch


class TrainingCheckpoint:
    """A folder with the state after the last complete epoch; the fingerprint ties it to one training."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self._folder, self._fingerprint = folder, fingerprint

    def write(self, state: TrainingState) -> None:
        facts = {
            "fingerprint": self._fingerprint,
            "chosen": state.chosen,
            "records": [asdict(record) for record in state.records],
        }
        with drafted_folder(self._folder) as draft:
            write_tensors(draft / "now.safetensors", state.now, {"kind": KIND})
            write_tensors(draft / "best.safetensors", state.best, {"kind": KIND})
            write_file(draft / "state.json", json.dumps(facts).encode())

    def read(self) -> TrainingState | None:
        """The state an earlier run left, or None; an error if it belongs to another training."""
        if not (self._folder / "state.json").is_file():
            return None
        try:
            facts = json.loads((self._folder / "state.json").read_bytes())
            if facts["fingerprint"] != self._fingerprint:
                raise StoreError(
                    f"The checkpoint {self._folder} belongs to another training: the images, settings or backbone "
                    "differ. Run without --resume to start over."
                )
            records = [EpochRecord(**record) for record in facts["records"]]
            now, best = (read_tensors(self._folder / f"{part}.safetensors", KIND)[0] for part in ("now", "best"))
            return TrainingState(records, int(facts["chosen"]), now, best)
        except (KeyError, ValueError, TypeError, OSError) as error:
            if isinstance(error, StoreError):
                raise
            raise StoreError(
                f"The checkpoint {self._folder} is damaged ({error}). Run without --resume to start over."
            ) from error


def optimiser_arrays(optimiser: torch.optim.Optimizer) -> Arrays:
    """The optimiser's state tensors, by the index of their parameter."""
    return {
        f"{place}.{key}": np.array(value.detach().cpu().numpy())
        for place, memory in optimiser.state_dict()["state"].items()
        for key, value in memory.items()
        if isinstance(value, torch.Tensor)
    }


def restore_optimiser(optimiser: torch.optim.Optimizer, arrays: Arrays) -> None:
    """Put back what `optimiser_arrays` gave."""
    state: dict[int, dict[str, torch.Tensor]] = {}
    for name, value in arrays.items():
        place, _, key = name.partition(".")
        state.setdefault(int(place), {})[key] = torch.from_numpy(np.array(value))
    optimiser.load_state_dict(optimiser.state_dict() | {"state": state})
