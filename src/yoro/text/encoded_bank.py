"""A bank of class descriptions with its text vectors, for classifiers on image-text models."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from yoro.data.examples import listed
from yoro.discriminant.descriptions import Descriptions
from yoro.errors import InputError, SourceError
from yoro.sources.cache import cached_vectors
from yoro.sources.protocol import DualEncoder, ResponseSource, is_dual
from yoro.text.banks import BUILT_IN, Bank, make_bank
from yoro.text.settings import Attributes, SentenceSettings


@dataclass(frozen=True)
class EncodedBank:
    """A bank and its vectors, in the order of `Bank.flat`.

    The sentences are the coordinates of the responses. If they vote, they also take part in the answer: as a
    zero-shot head beside BDM, and as anchors of the class means.
    """

    bank: Bank
    vectors: NDArray[np.float32]
    scale: float
    votes: bool = True

    @property
    def descriptions(self) -> Descriptions:
        """The vectors without the sentences."""
        return Descriptions(self.vectors, self.bank.flat()[1], self.scale)

    @property
    def digest(self) -> str:
        """Of the vectors and their scale, which determine the similarities to an image."""
        return hashlib.sha256(self.vectors.tobytes() + str(self.scale).encode()).hexdigest()

    def by_class(self) -> dict[str, NDArray[np.float32]]:
        """The vectors (m, dimension) of each class."""
        return {name: np.stack(rows) for name, rows in self._rows().items()}

    def joined(self, other: EncodedBank) -> EncodedBank:
        """Both banks in one; a shared class must have the same sentences."""
        return self._arranged(self.bank.joined(other.bank), {**other._rows(), **self._rows()})

    def renamed(self, names: Mapping[str, str]) -> EncodedBank:
        """Classes under new names; classes given the same name pool their sentences."""
        pooled: dict[str, list[NDArray[np.float32]]] = {}
        for name, rows in self._rows().items():
            pooled.setdefault(names.get(name, name), []).extend(rows)
        return self._arranged(self.bank.renamed(names), pooled)

    def _rows(self) -> dict[str, list[NDArray[np.float32]]]:
        rows: dict[str, list[NDArray[np.float32]]] = {}
        for vector, name in zip(self.vectors, self.bank.flat()[1], strict=True):
            rows.setdefault(name, []).append(vector)
        return rows

    def _arranged(self, bank: Bank, rows: Mapping[str, list[NDArray[np.float32]]]) -> EncodedBank:
        vectors = np.stack([vector for name in bank.classes for vector in rows[name]])
        return replace(self, bank=bank, vectors=vectors)


def need_texts(source: ResponseSource, what: str) -> DualEncoder:
    """The source as an image-text source; an error if it is not one. `what` needs it."""
    if not is_dual(source):
        raise SourceError(
            f"{source.name!r} has no text tower, which {what} needs. Image-text sources are "
            "embedded:conse, open_clip:MODEL/TAG and onnx:FOLDER; `yoro models` lists them."
        )
    return source


def make_encoded_bank(
    source: DualEncoder,
    classes: Iterable[str],
    settings: SentenceSettings | None = None,
    *,
    seed: int = 0,
    progress: bool = False,
) -> tuple[EncodedBank, list[str]]:
    """Encoded sentences for these classes, and notes on anything odd about them."""
    chosen = settings or SentenceSettings()
    bank, notes = make_bank(classes, chosen.attributes, each=chosen.sentences, seed=seed)
    vectors = encode_bank(source, bank, progress=progress)
    return EncodedBank(bank, vectors, source.logit_scale, chosen.zero_shot), notes


def encoded_bank_of(
    source: ResponseSource,
    classes: Iterable[str],
    settings: SentenceSettings,
    *,
    asked: str | None = None,
    seed: int = 0,
    progress: bool = False,
) -> tuple[EncodedBank | None, list[str]]:
    """`make_encoded_bank` for an image-text source; None for any other.

    `asked` is the option that requires sentences, if the user gave one; it is an error for other sources. Read at its
    features, a source needs no sentences: the image vectors are the responses.
    """
    if is_dual(source) and source.describe()["read"] != "features":
        return make_encoded_bank(source, classes, settings, seed=seed, progress=progress)
    if asked:
        need_texts(source, asked)
        raise InputError(f"{source.name!r} is read at 'features', which uses no sentences; remove {asked} or --read.")
    return None, []


def encode_bank(source: DualEncoder, bank: Bank, *, progress: bool = False) -> NDArray[np.float32]:
    """Vectors of the bank's sentences, encoded once per source and cached."""
    digest = str(source.describe()["digest"])
    return cached_vectors(digest, bank.flat()[0], source.dimension, source.encode_texts, progress=progress)


def extended(encoded: EncodedBank, classes: Iterable[str], attributes: Attributes, source: DualEncoder) -> EncodedBank:
    """The bank with sentences for new classes, from `attributes` or made like the others."""
    new = sorted(set(classes) - set(encoded.bank.classes))
    bank = encoded.bank
    if not new:
        return encoded
    if attributes is None and bank.origin not in BUILT_IN:
        raise InputError(
            f"The model has no sentences for the new {listed(new)}; its others came from {bank.origin!r}. "
            "Give a bank that has them with --attributes (attributes=...), or 'templates'."
        )
    settings = SentenceSettings(attributes or bank.origin, bank.each)
    more, _ = make_encoded_bank(source, new, settings, seed=bank.seed)
    return encoded.joined(more)
