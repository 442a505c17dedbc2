"""A small CLIP with random weights, written to disk as open_clip reads it: a real architecture of few layers."""

from __future__ import annotations

import json
from pathlib import Path

CONFIG = {
    "embed_dim": 48,
    "vision_cfg": {"image_size": 64, "layers": 2, "width": 64, "head_width": 32, "patch_size": 16},
    "text_cfg": {"context_length": 40, "vocab_size": 49408, "width": 64, "heads": 2, "layers": 2},
}


def write_clip(folder: Path, *, blind: bool = False) -> Path:
    """A folder for `open_clip:local-dir:FOLDER`; its weights also stand alone, as `open_clip_model.safetensors`.

    The image vectors of a `blind` one lie on a circle, however much its blocks see.
    """
    import open_clip
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(0)
    model = open_clip.CLIP(CONFIG["embed_dim"], CONFIG["vision_cfg"], CONFIG["text_cfg"])
    if blind:
        with torch.no_grad():
            model.visual.proj[:] = model.visual.proj[:, :2] @ torch.randn(2, CONFIG["embed_dim"])
    folder.mkdir(parents=True, exist_ok=True)
    state = {key: value.contiguous() for key, value in model.state_dict().items()}
    save_file(state, folder / "open_clip_model.safetensors")
    facts = {"model_cfg": CONFIG, "preprocess_cfg": {"size": 64}}
    (folder / "open_clip_config.json").write_text(json.dumps(facts))
    return folder
