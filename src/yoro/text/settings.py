"""Options of the sentences that an image-text backbone compares images with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from yoro import limits
from yoro.option import check_range, option

Sentences = Mapping[str, Sequence[str]]
Attributes = str | Path | Sentences | None


@dataclass(frozen=True)
class SentenceSettings:
    """Which sentences describe the classes."""

    attributes: Attributes = option(
        None,
        "Class descriptions for an image-text backbone: a JSON file, templates or names.",
        'In Python also a mapping {class: [sentences]}. "templates" (the default) are ready-made sentences for any '
        'class, "names" the bare class names.',
        metavar="BANK",
        expert=True,
    )
    sentences: int = option(20, "Sentences to draw per class.", expert=True)  # as in the paper
    classes: tuple[str, ...] = option(
        (),
        "More classes, with descriptions but no images.",
        "On the command line: --classes FILE.",
        expert=True,
        python_only=True,
    )
    zero_shot: bool = option(
        True,
        "Combine the zero-shot head with the images.",
        "Otherwise the sentences only make up the response.",
        expert=True,
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", tuple(self.classes))
        check_range("sentences", self.sentences, 1, limits.BANK_SENTENCES)

    def asked(self, shots: int | None = None) -> str | None:
        """The first option given that needs an image-text backbone."""
        given = {"attributes": self.attributes is not None, "classes": bool(self.classes), "shots 0": shots == 0}
        return next((f"--{name}" for name, there in given.items() if there), None)


EACH = SentenceSettings.sentences
