"""Secure aggregation of federated statistics (after Bonawitz et al. 2017): only the total is revealed.

The session is a folder that all parties see; nothing in it is secret. Each party joins with its public keys, sends its
sums under masks, and confirms whose messages arrived. Pairwise masks cancel in the sum. Every message also has a mask
of its own, revealed only with its party's confirmation, so that a message which arrives too late stays unreadable even
though the others revealed the masks that they share with its sender.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from yoro.discriminant.joint import JointStatistics
from yoro.errors import InputError, StoreError
from yoro.files.reading import json_digest
from yoro.model.card import NOISE
from yoro.model.gathered import Gathered
from yoro.model.model import Json
from yoro.model.shards import Shard
from yoro.parties import keys, messages
from yoro.parties.agreement import FEW, Agreement, read_agreement
from yoro.parties.differential_privacy import bytes_needed, from_noisy, noisy
from yoro.parties.fixed_point import Limbs, add, decode, encode
from yoro.parties.keys import PrivateKeys, PublicKeys
from yoro.parties.masks import mask, noise_bytes, own_key, pair_key, pair_sign
from yoro.parties.messages import Confirmation, Message
from yoro.parties.moments import from_vector, to_vector

PARTIES = "parties"  # key of a shard's facts: whose sums it holds
SEEN_BY_TWO = "each can subtract its own sums from the total and learn the other's."
AGAIN = "Start a new session: `yoro parties agree` in another folder."


@dataclass(frozen=True)
class Participants:
    """Parties whose messages are added up, and parties that dropped out."""

    added: tuple[str, ...]
    lost: tuple[str, ...]

    @property
    def notes(self) -> list[str]:
        notes = [f"Without {', '.join(self.lost)}, who sent no message."] if self.lost else []
        return [*notes, f"Only two parties remain: {SEEN_BY_TWO}"] if len(self.added) <= FEW else notes


class Session:
    """The folder of a session and the files in it."""

    def __init__(self, folder: Path) -> None:
        keys.need_cryptography()
        self.folder = folder
        self.agreement: Agreement = read_agreement(folder)

    def place(self, party: str, what: str) -> Path:
        """A party's file; `what` is "public", "masked" or "confirmed"."""
        return self.folder / f"{party}.{what}"

    def have(self, what: str) -> tuple[str, ...]:
        """The parties whose file of that kind has arrived."""
        return tuple(party for party in self.agreement.parties if self.place(party, what).is_file())

    def joined(self) -> dict[str, PublicKeys]:
        return {
            party: keys.read_public(self.place(party, "public"), self.agreement, party) for party in self.have("public")
        }

    @cached_property
    def publics(self) -> dict[str, PublicKeys]:
        """The public keys of all parties; everybody must have joined."""
        if missing := sorted(set(self.agreement.parties) - set(self.have("public"))):
            raise InputError(
                f"Not all parties have joined: {_named(missing, 'public')} not in {self.folder}. Each runs "
                "`yoro parties join` first."
            )
        return self.joined()

    @cached_property
    def context(self) -> str:
        """A digest of the agreement and of all public keys; every message carries it."""
        public = {party: [one.exchange.hex(), one.signing.hex()] for party, one in self.publics.items()}
        return json_digest([self.agreement.digest, public])

    def message(self, party: str) -> Message:
        return messages.read_message(
            self.place(party, "masked"), self.publics[party], self.context, self.agreement.length
        )

    def confirmations(self) -> list[Confirmation]:
        return [
            messages.read_confirmation(self.place(party, "confirmed"), self.publics[party], self.context)
            for party in self.have("confirmed")
        ]


def join(session: Session, party: str, key: Path) -> PublicKeys:
    """Generate a party's keys: the private ones into its own file, the public ones into the folder."""
    secret, place = keys.make_secret(session.agreement, party), session.place(party, "public")
    whose = keys.owner(key) if key.exists() else None
    if place.exists():
        raise StoreError(f"{party} has joined already: {place} exists, and a second key would not match it.")
    if whose not in (None, party):
        holds = f"has the keys of {whose}" if whose else "is not a file of keys"
        raise StoreError(f"{key} exists already and {holds}; give {party} a file of its own.")
    if whose == party:  # it was killed in between
        secret = keys.read_secret(key, session.agreement)
    else:
        keys.write_secret(secret, key)
    keys.write_signed(secret.public.to_json(), place, secret)
    return secret.public


def sender(session: Session, key: Path) -> PrivateKeys:
    """The private keys in a file of a party whose message the others still wait for."""
    secret = _own(session, key)
    if any(secret.party not in one.messages for one in session.confirmations()):
        raise InputError(f"The others confirmed without {secret.party}, so its message would come too late. {AGAIN}")
    return secret


def send(session: Session, statistics: JointStatistics, key: Path) -> Message:
    """Write a party's masked sums into the folder, with noise if the agreement asks for differential privacy.

    With noise, the responses must have been clipped as agreed. A key masks one message only: two under the same masks
    would reveal their difference.
    """
    secret, agreement = sender(session, key), session.agreement
    vector = to_vector(statistics, agreement.classes, agreement.about)
    if agreement.noise is not None:
        classes, layout = len(agreement.classes), agreement.layout
        drawn = noise_bytes(secret, session.context, bytes_needed(classes, layout))
        vector = noisy(vector, classes, layout, agreement.noise, drawn)
    limbs = encode(vector, agreement.bits, len(agreement.parties))
    mask(limbs, own_key(secret, session.context), sign=1)
    for other, public in session.publics.items():
        if other != secret.party:
            mask(limbs, pair_key(secret, public, session.context), sign=pair_sign(secret.party, other))
    message = Message(secret.party, session.context, limbs)
    if secret.masked not in (None, message.digest):
        raise InputError(
            f"{key} has masked other data before, and a key masks once: two messages under the same masks would reveal "
            f"their difference. {AGAIN}"
        )
    keys.write_secret(replace(secret, masked=message.digest), key)  # first, or it could be done twice
    messages.write_message(message, session.place(secret.party, "masked"), secret)
    return message


def confirm(session: Session, key: Path, without: Sequence[str] = ()) -> Participants:
    """Confirm whose messages arrived, and reveal the mask keys needed to add them up, but no single party's sums.

    A party that sent none must be named in `without`: it stays out for good, because its masks are revealed.
    """
    secret = sender(session, key)
    participants = _participants(session, session.have("masked"))
    if secret.party not in participants.added:
        raise InputError(
            f"{secret.party} has sent no message yet; run `yoro parties mask {session.folder} DATA` first."
        )
    _check_without(session, participants.lost, without)
    if secret.confirmed not in (None, participants.added):
        raise InputError(
            f"{key} has confirmed {', '.join(secret.confirmed or ())} before, and now messages of "
            f"{', '.join(participants.added)} are here. Two different sums would reveal their difference. {AGAIN}"
        )
    digests = {party: session.message(party).digest for party in participants.added}
    lost = {party: pair_key(secret, session.publics[party], session.context) for party in participants.lost}
    made = Confirmation(secret.party, session.context, digests, own_key(secret, session.context), lost)
    for other in session.confirmations():
        if other.messages != digests:
            raise InputError(f"{other.party} has confirmed other messages than those in {session.folder}. {AGAIN}")
    keys.write_secret(replace(secret, confirmed=participants.added), key)
    keys.write_signed(made.facts(), session.place(secret.party, "confirmed"), secret)
    return participants


def _check_without(session: Session, lost: Sequence[str], without: Sequence[str]) -> None:
    """Raise unless the parties without a message are those that are to be left out."""
    if stray := sorted(set(without) - set(session.agreement.parties)):
        raise InputError(f"{stray[0]!r:.60} is not a party of the agreement.")
    if early := sorted(set(without) - set(lost)):
        raise InputError(f"{early[0]} has sent a message; remove --without {early[0]}.")
    if waited := sorted(set(lost) - set(without)):
        names = " ".join(f"--without {name}" for name in waited)
        raise InputError(
            f"No message of {', '.join(waited)} is in {session.folder}. Wait; or leave out for good who is not to "
            f"come, with {names}."
        )


def total(session: Session) -> tuple[Shard, Participants]:
    """The sums of all participants, as a shard; no single party's sums are ever revealed."""
    agreement, confirmations = session.agreement, session.confirmations()
    participants = _participants(session, tuple(confirmations[0].messages) if confirmations else session.have("masked"))
    if missing := sorted(set(participants.added) - {one.party for one in confirmations}):
        raise InputError(
            f"Not all parties have confirmed: {_named(missing, 'confirmed')} not in {session.folder}. "
            "Each runs `yoro parties confirm` once all messages are there."
        )
    sums = np.zeros((agreement.length, 2), dtype=np.uint64)
    for one in confirmations:
        _add_one(session, sums, one, confirmations[0], participants)
    vector, classes, layout, about = decode(sums, agreement.bits), agreement.classes, agreement.layout, agreement.about
    facts: Json = {PARTIES: {agreement.session: {"added": list(participants.added), "lost": list(participants.lost)}}}
    if agreement.noise is None:
        statistics = from_vector(vector, classes, layout, about)
    else:
        statistics = from_noisy(vector, classes, layout, about, agreement.noise, len(participants.added))
        facts[NOISE] = {agreement.session: agreement.noise.to_json()}
    gathered = Gathered(statistics, noting=False)
    return Shard(gathered, agreement.origin, (agreement.session,), facts), participants


def _add_one(session: Session, sums: Limbs, one: Confirmation, first: Confirmation, participants: Participants) -> None:
    """Add a party's message to the sums, without the masks that nobody else cancels."""
    if one.messages != first.messages or set(one.lost) != set(participants.lost):
        raise InputError(f"{one.party} and {first.party} have confirmed different messages. {AGAIN}")
    message = session.message(one.party)
    if message.digest != one.messages[one.party]:
        raise StoreError(f"The message of {one.party} is not the one that was confirmed.")
    limbs = message.limbs.copy()
    mask(limbs, one.own, sign=-1)
    for party, key in one.lost.items():
        mask(limbs, key, sign=-pair_sign(one.party, party))
    add(sums, limbs)


def _own(session: Session, key: Path) -> PrivateKeys:
    """The private keys in a file; their public half must be the one in the folder."""
    secret = keys.read_secret(key, session.agreement)
    if session.publics.get(secret.party) != secret.public:
        raise StoreError(f"The public key of {secret.party} in {session.folder} is not that of {key}.")
    return secret


def _participants(session: Session, added: Sequence[str]) -> Participants:
    parties, least = session.agreement.parties, session.agreement.least
    if stray := sorted(set(added) - set(parties)):
        raise InputError(f"{stray[0]!r:.60} is not a party of the agreement.")
    if len(added) < least:
        raise InputError(
            f"{len(added)} of {len(parties)} parties have sent messages; the agreement requires at least {least}."
        )
    return Participants(tuple(sorted(added)), tuple(party for party in parties if party not in set(added)))


def _named(parties: Sequence[str], what: str) -> str:
    files = ", ".join(f"{party}.{what}" for party in parties[:5]) + (", ..." if len(parties) > 5 else "")
    return f"{files} {'is' if len(parties) == 1 else 'are'}"
