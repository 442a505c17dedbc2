"""A graph of half the size: its weights are stored in float16, and computed with as before."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

FEWEST = 4096  # values of a tensor worth halving; the first layers are smaller, and their rounding is felt the most
WIDEST = 6e4  # value that float16 holds
ROUNDING = 1e-3  # of a tensor's length; float16 rounds by 3e-4, and by more where values are too small for it


def halve_weights(model: onnx.ModelProto) -> None:
    """Store every large float32 tensor in float16; a Cast, which the runtime does once, makes it float32 again."""
    casts, kept = [], []
    for tensor in model.graph.initializer:
        half = _half(tensor)
        if half is None:
            kept.append(tensor)
            continue
        stored = f"{tensor.name}_half"
        kept.append(numpy_helper.from_array(half, stored))
        casts.append(helper.make_node("Cast", [stored], [tensor.name], to=tensor.data_type, name=f"{tensor.name}_cast"))
    nodes = [*casts, *model.graph.node]
    del model.graph.initializer[:], model.graph.node[:]
    model.graph.initializer.extend(kept)
    model.graph.node.extend(nodes)


def _half(tensor: onnx.TensorProto) -> np.ndarray[tuple[int, ...], np.dtype[np.float16]] | None:
    """A tensor's values in float16; None if it is small, of another type, or would lose too much."""
    if tensor.data_type != onnx.TensorProto.FLOAT or np.prod(tensor.dims, dtype=np.int64) < FEWEST:
        return None
    values = numpy_helper.to_array(tensor)
    if not np.abs(values).max() <= WIDEST:  # so that NaN is kept too
        return None
    half = values.astype(np.float16)
    lost = np.linalg.norm((half.astype(np.float32) - values).ravel())
    return half if lost <= ROUNDING * np.linalg.norm(values.ravel()) else None
