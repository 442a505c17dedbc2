"""The signed messages of a secure aggregation: masked sums, then a confirmation of whose sums are added up."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from yoro import limits
from yoro.errors import StoreError
from yoro.files.atomic import write_file
from yoro.files.reading import read_bounded, read_table, refuse_damaged, refuse_unusable
from yoro.files.tensors import pack_tensors, parse_tensors
from yoro.model.model import Json
from yoro.parties.fixed_point import Limbs
from yoro.parties.keys import PrivateKeys, PublicKeys, parse_key

MASKED, CONFIRMED = "yoro-party-masked", "yoro-party-confirmed"
FORMAT = 1


@dataclass(frozen=True)
class Message:
    """The masked integers of a party: random numbers to anyone without the masks."""

    party: str
    context: str  # the session: a digest of the agreement and of everybody's public keys
    limbs: Limbs

    @property
    def digest(self) -> str:
        return hashlib.sha256(np.ascontiguousarray(self.limbs).data).hexdigest()

    def facts(self) -> Json:
        """The content that is signed."""
        return {
            "kind": MASKED, "format": FORMAT, "party": self.party, "context": self.context, "digest": self.digest,
        }  # fmt: skip


@dataclass(frozen=True)
class Confirmation:
    """Whose messages are added up, and the keys of the masks that must then be removed."""

    party: str
    context: str
    messages: dict[str, str]  # party to digest
    own: bytes
    lost: dict[str, bytes]  # keys of the masks shared with parties that dropped out

    def facts(self) -> Json:
        return {
            "kind": CONFIRMED, "format": FORMAT, "party": self.party, "context": self.context,
            "messages": self.messages, "own": self.own.hex(),
            "lost": {party: key.hex() for party, key in self.lost.items()},
        }  # fmt: skip


def write_message(message: Message, path: Path, secret: PrivateKeys) -> None:
    """Write a signed message."""
    write_file(path, pack_tensors({"message": message.limbs}, secret.signed(message.facts())))


def read_message(path: Path, sender: PublicKeys, context: str, length: int) -> Message:
    """A party's message; one that was changed or belongs to another session is a StoreError."""
    with refuse_unusable(str(path)):
        content = read_bounded(path, limits.MODEL_FILE_BYTES)
    arrays, facts = parse_tensors(content, MASKED, str(path))
    limbs = arrays.get("message")
    if limbs is None or limbs.dtype != np.uint64 or limbs.shape != (length, 2):
        shape = None if limbs is None else limbs.shape
        raise StoreError(f"{path} holds a message of shape {shape}; the agreement requires ({length}, 2).")
    message = Message(str(facts.get("party")), str(facts.get("context")), cast(Limbs, limbs))
    _check(message.party, message.context, sender, context, path)
    sender.verify(facts, message.facts(), path)
    return message


def read_confirmation(path: Path, sender: PublicKeys, context: str) -> Confirmation:
    """A party's confirmation; one that was changed or belongs to another session is a StoreError."""
    table = read_table(path, CONFIRMED, FORMAT, limits.AGREEMENT_BYTES)
    with refuse_damaged(path):
        messages, lost = (cast("dict[str, str]", table[key]) for key in ("messages", "lost"))
        confirmation = Confirmation(
            str(table["party"]), str(table["context"]), {str(k): str(v) for k, v in messages.items()},
            parse_key(table["own"]), {str(party): parse_key(key) for party, key in lost.items()},
        )  # fmt: skip
    _check(confirmation.party, confirmation.context, sender, context, path)
    sender.verify(table, confirmation.facts(), path)
    return confirmation


def _check(party: str, mine: str, sender: PublicKeys, context: str, path: Path) -> None:
    if party != sender.party:
        raise StoreError(
            f"{path} comes from {party!r:.60}, not from {sender.party}. Was a file copied under another name?"
        )
    if mine != context:
        raise StoreError(
            f"{path} belongs to another session: the agreement or the public keys in the folder are different."
        )
