"""A session of parties: a folder that all of them see, in which nothing is secret.

Each party joins with its public keys, sends its sums under masks, and confirms whose messages came. Masks of pairs
cancel in the sum. Each message has a mask of its own besides, which its party gives away only with its confirmation: so
a message that was thought lost, and comes late, stays closed although the others gave away their masks with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from yoro.discriminant.joint import JointStatistics
from yoro.errors import InputError, StoreError
from yoro.model.gathered import Gathered
from yoro.model.model import Json
from yoro.model.noise_facts import NOISE
from yoro.model.shards import Shard
from yoro.parties.agreement import FEW, Agreement, digest_of, read_agreement
from yoro.parties.differential_privacy import bytes_needed, from_noisy, noisy
from yoro.parties.fixed_point import Limbs, add, decode, encode
from yoro.parties.keys import (
    Public,
    Secret,
    having_done,
    make_secret,
    need_cryptography,
    read_public,
    read_secret,
    write_public,
    write_secret,
)
from yoro.parties.masks import mask, noise_bytes, own_key, pair_key, pair_sign
from yoro.parties.messages import (
    Confirmation,
    Message,
    read_confirmation,
    read_message,
    write_confirmation,
    write_message,
)
from yoro.parties.moments import from_vector, to_vector

PARTIES = "parties"  # the fact of a shard that says whose sums are in it
AGAIN = "Start a new session: `yoro parties agree` in another folder."


@dataclass(frozen=True)
class Agreed:
    """Whose messages are added up, and who was lost."""

    added: tuple[str, ...]
    lost: tuple[str, ...]

    @property
    def notes(self) -> list[str]:
        """Sentences on what follows from it."""
        told = [f"Without {', '.join(self.lost)}: no message of theirs came."] if self.lost else []
        if len(self.added) <= FEW:
            told.append("Only two remain: each can take its own sums from the total, and has the other's.")
        return told


class Session:
    """The folder of a session, and what is in it."""

    def __init__(self, folder: Path) -> None:
        need_cryptography()
        self.folder = folder
        self.agreement: Agreement = read_agreement(folder)

    def place(self, party: str, what: str) -> Path:
        """The file of a party: `what` is "public", "masked" or "confirmed"."""
        return self.folder / f"{party}.{what}"

    def have(self, what: str) -> tuple[str, ...]:
        """The parties whose file is there."""
        return tuple(party for party in self.agreement.parties if self.place(party, what).is_file())

    def joined(self) -> dict[str, Public]:
        """The public keys that are there."""
        return {party: read_public(self.place(party, "public"), self.agreement, party) for party in self.have("public")}

    @cached_property
    def publics(self) -> dict[str, Public]:
        """Everybody's public keys; all must have joined."""
        if missing := sorted(set(self.agreement.parties) - set(self.have("public"))):
            raise InputError(f"Not all have joined: {_named(missing, 'public')} not in {self.folder}.")
        return self.joined()

    @cached_property
    def context(self) -> str:
        """A digest of the agreement and of everybody's keys; it is in every message."""
        keys = {party: [public.exchange.hex(), public.signing.hex()] for party, public in self.publics.items()}
        return digest_of([self.agreement.digest, keys])

    def message(self, party: str) -> Message:
        """The masked message of a party."""
        return read_message(self.place(party, "masked"), self.publics[party], self.context, self.agreement.length)

    def confirmations(self) -> list[Confirmation]:
        """All that are there."""
        return [
            read_confirmation(self.place(party, "confirmed"), self.publics[party], self.context)
            for party in self.have("confirmed")
        ]


def join(session: Session, party: str, key: Path) -> Public:
    """Make keys for a party: the secret ones in a file of its own, the public ones in the folder."""
    secret, place = make_secret(session.agreement, party), session.place(party, "public")
    for path in (key, place):
        if path.exists():
            raise StoreError(f"{path} exists already: {party} has joined. A second key would not fit the first.")
    write_secret(secret, key)
    write_public(secret.public, place, secret)
    return secret.public


def send(session: Session, statistics: JointStatistics, key: Path) -> Message:
    """Write the sums of a party's data, under masks, into the folder; with noise, if that was agreed on.

    Where there is noise, the responses must have been clipped as was agreed on. A key masks one message: two under the
    same masks would show by how much they differ.
    """
    secret = _own(session, key)
    _refuse_without(session, secret.party)
    agreement = session.agreement
    vector = to_vector(statistics, agreement.classes, agreement.about)
    if agreement.noise is not None:
        classes, layout = len(agreement.classes), agreement.layout
        drawn = noise_bytes(secret, session.context, bytes_needed(classes, layout))
        vector = noisy(vector, classes, layout, agreement.noise, drawn)
    limbs = encode(vector, agreement.bits, len(agreement.parties))
    mask(limbs, own_key(secret, session.context), sign=1)
    for other in _others(session, secret.party):
        mask(limbs, pair_key(secret, session.publics[other], session.context), sign=pair_sign(secret.party, other))
    message = Message(secret.party, session.context, limbs)
    if secret.masked not in (None, message.digest):
        raise InputError(
            f"{key} has masked other data before. Two messages under the same masks would show by how much they "
            f"differ, so a key masks once. {AGAIN}"
        )
    write_secret(having_done(secret, masked=message.digest), key)  # first: what is not noted could be done twice
    write_message(message, session.place(secret.party, "masked"), secret)
    return message


def confirm(session: Session, key: Path) -> Agreed:
    """Say whose messages came, and give away what is needed to add them up: nothing of a single party's."""
    secret = _own(session, key)
    agreed = _agreed(session, session.have("masked"))
    if secret.party not in agreed.added:
        raise InputError(f"{secret.party} has sent no message: `yoro parties mask {session.folder} DATA` makes it.")
    if secret.confirmed not in (None, agreed.added):
        raise InputError(
            f"{key} has confirmed {', '.join(secret.confirmed or ())}, and now the messages of "
            f"{', '.join(agreed.added)} are here. Two different sums would show what lies between them. {AGAIN}"
        )
    messages = {party: session.message(party).digest for party in agreed.added}
    lost = {party: pair_key(secret, session.publics[party], session.context) for party in agreed.lost}
    made = Confirmation(secret.party, session.context, messages, own_key(secret, session.context), lost)
    for other in session.confirmations():
        if other.messages != messages:
            raise InputError(f"{other.party} has confirmed other messages than those in {session.folder}. {AGAIN}")
    write_secret(having_done(secret, confirmed=agreed.added), key)
    write_confirmation(made, session.place(secret.party, "confirmed"), secret)
    return agreed


def total(session: Session) -> tuple[Shard, Agreed]:
    """The sums of all whose messages came, as a shard; nobody's alone are ever known."""
    agreement, confirmations = session.agreement, session.confirmations()
    agreed = _agreed(session, tuple(confirmations[0].messages) if confirmations else session.have("masked"))
    if missing := sorted(set(agreed.added) - {one.party for one in confirmations}):
        raise InputError(
            f"Not all have confirmed: {_named(missing, 'confirmed')} not in {session.folder}. "
            "`yoro parties confirm` makes it, once all messages are there."
        )
    sums = np.zeros((agreement.length, 2), dtype=np.uint64)
    for one in confirmations:
        _add_one(session, sums, one, confirmations[0], agreed)
    vector, classes, layout, about = decode(sums, agreement.bits), agreement.classes, agreement.layout, agreement.about
    facts: Json = {PARTIES: {agreement.session: {"added": list(agreed.added), "lost": list(agreed.lost)}}}
    if agreement.noise is None:
        statistics = from_vector(vector, classes, layout, about)
    else:
        statistics = from_noisy(vector, classes, layout, about, agreement.noise, len(agreed.added))
        facts[NOISE] = {agreement.session: agreement.noise.to_json()}
    gathered = Gathered(statistics, noting=False)
    return Shard(gathered, agreement.origin, (agreement.session,), facts), agreed


def _add_one(session: Session, sums: Limbs, one: Confirmation, first: Confirmation, agreed: Agreed) -> None:
    """Add a party's message to the sums, less the masks that no other takes away."""
    if one.messages != first.messages or set(one.lost) != set(agreed.lost):
        raise InputError(f"{one.party} and {first.party} have confirmed different messages. {AGAIN}")
    message = session.message(one.party)
    if message.digest != one.messages[one.party]:
        raise StoreError(f"The message of {one.party} is another than all have confirmed.")
    limbs = message.limbs.copy()
    mask(limbs, one.own, sign=-1)
    for party, key in one.lost.items():
        mask(limbs, key, sign=-pair_sign(one.party, party))
    add(sums, limbs)


def _own(session: Session, key: Path) -> Secret:
    """The secret of a key file, whose public half must be the one in the folder."""
    secret = read_secret(key, session.agreement)
    if session.publics.get(secret.party) != secret.public:
        raise StoreError(f"The public key of {secret.party} in {session.folder} is not that of {key}.")
    return secret


def _agreed(session: Session, added: Sequence[str]) -> Agreed:
    parties, least = session.agreement.parties, session.agreement.least
    if stray := sorted(set(added) - set(parties)):
        raise InputError(f"{stray[0]!r:.60} is no party of the agreement.")
    if len(added) < least:
        raise InputError(
            f"Messages of {len(added)} of {len(parties)} parties are here; at least {least} were agreed on."
        )
    return Agreed(tuple(sorted(added)), tuple(party for party in parties if party not in set(added)))


def _refuse_without(session: Session, party: str) -> None:
    """Raise if others have confirmed without a party: its message would come too late."""
    if any(party not in one.messages for one in session.confirmations()):
        raise InputError(f"The others have confirmed without {party}, so its message would come too late. {AGAIN}")


def _others(session: Session, party: str) -> list[str]:
    return [other for other in session.agreement.parties if other != party]


def _named(parties: Sequence[str], what: str) -> str:
    files = ", ".join(f"{party}.{what}" for party in parties[:5]) + (", ..." if len(parties) > 5 else "")
    return f"{files} {'is' if len(parties) == 1 else 'are'}"
