"""What parties send: a masked message each, then a confirmation of whose messages are added up; both signed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from yoro import limits
from yoro.errors import StoreError
from yoro.files.atomic import write_file
from yoro.files.reading import read_bounded
from yoro.files.tensors import pack_tensors, parse_tensors
from yoro.model.model import Json
from yoro.parties.agreement import digest_of, read_table
from yoro.parties.fixed_point import Limbs
from yoro.parties.keys import SIZE, Public, Secret

MASKED, CONFIRMED = "yoro-party-masked", "yoro-party-confirmed"
FORMAT = 1


@dataclass(frozen=True)
class Message:
    """The integers of a party under its masks: without the others' they are random numbers."""

    party: str
    context: str  # the session: a digest of the agreement and of everybody's public keys
    limbs: Limbs

    @property
    def digest(self) -> str:
        """Of what is in it."""
        return hashlib.sha256(np.ascontiguousarray(self.limbs).data).hexdigest()

    def facts(self) -> Json:
        """What is signed."""
        return {
            "kind": MASKED, "format": FORMAT, "party": self.party, "context": self.context, "digest": self.digest,
        }  # fmt: skip


@dataclass(frozen=True)
class Confirmation:
    """Whose messages are added up, by their digests, and the keys of the masks that then have to go."""

    party: str
    context: str
    messages: dict[str, str]  # party to digest
    own: bytes
    lost: dict[str, bytes]  # of the masks shared with parties whose messages did not come

    def facts(self) -> Json:
        """What is signed."""
        return {
            "kind": CONFIRMED, "format": FORMAT, "party": self.party, "context": self.context,
            "messages": self.messages, "own": self.own.hex(),
            "lost": {party: key.hex() for party, key in self.lost.items()},
        }  # fmt: skip


def write_message(message: Message, path: Path, secret: Secret) -> None:
    """Write the file, signed."""
    write_file(path, pack_tensors({"message": message.limbs}, secret.signed(message.facts())))


def read_message(path: Path, sender: Public, context: str, length: int) -> Message:
    """A party's message of this session; what was changed, or belongs elsewhere, is a StoreError."""
    try:
        content = read_bounded(path, limits.MODEL_FILE_BYTES)
    except ValueError as error:
        raise StoreError(f"{path} is damaged: {error}.") from None
    arrays, facts = parse_tensors(content, MASKED, str(path))
    limbs = arrays.get("message")
    if limbs is None or limbs.dtype != np.uint64 or limbs.shape != (length, 2):
        shape = None if limbs is None else limbs.shape
        raise StoreError(f"{path} has a message of shape {shape}; by the agreement it has ({length}, 2).")
    message = Message(str(facts.get("party")), str(facts.get("context")), cast(Limbs, limbs))
    _check(message.party, message.context, sender, context, path)
    sender.check(facts.get("signature"), digest_of(message.facts()).encode(), str(path))
    return message


def write_confirmation(confirmation: Confirmation, path: Path, secret: Secret) -> None:
    """Write the file, signed."""
    write_file(path, json.dumps(secret.signed(confirmation.facts()), indent=1).encode())


def read_confirmation(path: Path, sender: Public, context: str) -> Confirmation:
    """A party's confirmation of this session; what was changed, or belongs elsewhere, is a StoreError."""
    table = read_table(path, CONFIRMED, FORMAT, limits.AGREEMENT_BYTES)
    try:
        messages, lost = (cast("dict[str, str]", table[key]) for key in ("messages", "lost"))
        confirmation = Confirmation(
            str(table["party"]), str(table["context"]), {str(k): str(v) for k, v in messages.items()},
            _key(table["own"]), {str(party): _key(key) for party, key in lost.items()},
        )  # fmt: skip
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise StoreError(f"{path} is damaged: {type(error).__name__} at {str(error)[:60]}.") from None
    _check(confirmation.party, confirmation.context, sender, context, path)
    sender.check(table.get("signature"), digest_of(confirmation.facts()).encode(), str(path))
    return confirmation


def _check(party: str, mine: str, sender: Public, context: str, path: Path) -> None:
    if party != sender.party:
        raise StoreError(f"{path} comes from {party!r:.60}, not from {sender.party}: was a message sent twice?")
    if mine != context:
        raise StoreError(
            f"{path} belongs to another session: another agreement, or other public keys than those in the folder."
        )


def _key(text: object) -> bytes:
    key = bytes.fromhex(str(text))
    if len(key) != SIZE:
        raise ValueError("a key")
    return key
