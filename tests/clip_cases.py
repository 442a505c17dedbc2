"""Small trainings on image-text sources for the tests: crops of photographs through a small random CLIP."""

from __future__ import annotations

from dataclasses import replace

from photos import crops
from yoro.data.examples import Example

CLASSES = ("astronaut", "coffee", "rocket")
BANK = {
    "astronaut": ["a person in an orange space suit", "the portrait of a woman by a flag", "a person with a smile"],
    "coffee": ["a cup of coffee on a wooden table", "a white cup on a saucer with a spoon", "a dark and hot drink"],
    "rocket": [
        "a rocket on its launch pad",
        "a tall white rocket with boosters",
        "a tower of steel at night",
    ],
}
BANKS = {"attrvr": ("templates", BANK), "dvp-cse": ("templates", BANK), "dga": ("templates", BANK)}


def photo_examples(count: int, seed: int = 0) -> list[Example]:
    """`count` crops of each photograph, in memory."""
    return [
        Example(crop, name, f"{name} {i}") for name in CLASSES for i, crop in enumerate(crops(name, count, seed=seed))
    ]


def open_both(name: str):
    """The source for its texts, and with gradients."""
    from yoro.sources import open_source
    from yoro.sources.torch.gradients import open_differentiable

    return open_source(name), open_differentiable(name, device="cpu")


def start(method, both, count=12, *, epochs=8, rate=1.0, banks=None, settings=None, **changes):
    """A method ready to run, its training images, and the notes; without augmentation, so that few epochs tell."""
    from yoro.refining.images import LabelledImages
    from yoro.research.baselines.clip import ClipSettings, clip_geometry, clip_prompt, clip_recipe, clip_training
    from yoro.research.baselines.published import ClipOptions

    texts, twin = both
    options = ClipOptions(**(settings or {"levels": 1, "crops": 2}), epochs=epochs)
    prompt = clip_prompt(method, twin, options)
    train = LabelledImages(photo_examples(count), CLASSES, clip_geometry(prompt, twin))
    recipe = clip_recipe(method, options)
    rates = {"learning_rate": rate, "head_learning_rate": rate if method == "autovp" else recipe.head_learning_rate}
    recipe = replace(recipe, **{"batch_size": 16, "augmentation": None, **rates, **changes})
    chosen = ClipSettings(method, BANKS.get(method, ()) if banks is None else banks, options=options)
    training, notes = clip_training(chosen, texts, twin, train, recipe)
    return training, train, notes
