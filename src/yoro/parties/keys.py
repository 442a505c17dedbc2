"""Keys of a party of a secure aggregation: a private file that it keeps, and a public one for the others.

One key pair (X25519, Diffie-Hellman) agrees on a secret with every other party, the other (Ed25519) signs messages.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from yoro import limits
from yoro.environment import install
from yoro.errors import InputError, StoreError, YoroError
from yoro.files.atomic import drafted_file, write_file
from yoro.files.reading import json_digest, read_table, refuse_damaged
from yoro.model.model import Json
from yoro.parties.agreement import Agreement

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

SECRET, PUBLIC = "yoro-party-key", "yoro-party-public"
FORMAT = 1
SIZE = 32  # bytes of every key
PRIVATE = 0o600  # the mode of a secret file


@dataclass(frozen=True)
class PrivateKeys:
    """What only the party knows, and what it has done in the session: everything once."""

    party: str
    agreement: str  # its digest
    exchange: bytes
    signing: bytes
    seed: bytes  # of the mask that protects the message even from those who know the pairwise masks
    masked: str | None = None  # digest of the message that was made
    confirmed: tuple[str, ...] | None = None  # parties whose messages are added up

    @property
    def public(self) -> PublicKeys:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        signing = Ed25519PrivateKey.from_private_bytes(self.signing).public_key().public_bytes_raw()
        return PublicKeys(self.party, self.agreement, self._exchange().public_key().public_bytes_raw(), signing)

    def shared(self, other: PublicKeys) -> bytes:
        """The secret that this party shares with another."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

        try:
            return bytes(self._exchange().exchange(X25519PublicKey.from_public_bytes(other.exchange)))
        except ValueError:
            raise InputError(
                f"The public key of {other.party} is not valid, so no secret can be shared with it."
            ) from None

    def signed(self, table: Json) -> Json:
        """The table with a signature of its content."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        signature = Ed25519PrivateKey.from_private_bytes(self.signing).sign(json_digest(table).encode())
        return table | {"signature": bytes(signature).hex()}

    def _exchange(self) -> X25519PrivateKey:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        return X25519PrivateKey.from_private_bytes(self.exchange)


@dataclass(frozen=True)
class PublicKeys:
    """What the others know of a party."""

    party: str
    agreement: str
    exchange: bytes
    signing: bytes

    @property
    def fingerprint(self) -> str:
        """A fingerprint of both keys, to be compared over another channel, such as the telephone."""
        digest = json_digest([self.party, self.exchange.hex(), self.signing.hex()])[:SIZE]
        return " ".join(digest[i : i + 4] for i in range(0, SIZE, 4))

    def verify(self, signed: Mapping[str, object], table: Json, path: Path) -> None:
        """Raise unless the signature in a file is this party's for the table that was read from it."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            signature = bytes.fromhex(str(signed.get("signature")))
            Ed25519PublicKey.from_public_bytes(self.signing).verify(signature, json_digest(table).encode())
        except (InvalidSignature, ValueError):
            raise StoreError(
                f"The signature of {path} is not {self.party}'s: it was changed, or is another's."
            ) from None

    def to_json(self) -> Json:
        return {
            "kind": PUBLIC, "format": FORMAT, "party": self.party, "agreement": self.agreement,
            "exchange": self.exchange.hex(), "signing": self.signing.hex(),
        }  # fmt: skip


def need_cryptography() -> None:
    """Raise, with the command to install it, if the package cryptography is missing."""
    try:
        import cryptography  # noqa: F401
    except ModuleNotFoundError:
        raise InputError(f"Secure aggregation needs the package cryptography: {install('parties')}.") from None


def make_secret(agreement: Agreement, party: str) -> PrivateKeys:
    """Generate the keys of a party."""
    if party not in agreement.parties:
        raise InputError(
            f"{party!r:.60} is not a party of the agreement; the parties are {', '.join(agreement.parties)}."
        )
    exchange, signing, seed = (secrets.token_bytes(SIZE) for _ in range(3))
    return PrivateKeys(party, agreement.digest, exchange, signing, seed)


def write_secret(secret: PrivateKeys, path: Path) -> None:
    """Write the file so that only its owner can read it."""
    table: Json = {
        "kind": SECRET, "format": FORMAT, "party": secret.party, "agreement": secret.agreement,
        "exchange": secret.exchange.hex(), "signing": secret.signing.hex(), "seed": secret.seed.hex(),
        "masked": secret.masked, "confirmed": None if secret.confirmed is None else list(secret.confirmed),
    }  # fmt: skip
    with drafted_file(path) as draft:
        draft.chmod(PRIVATE)  # before there is anything in it
        draft.write_bytes(json.dumps(table, indent=1).encode())


def read_secret(path: Path, agreement: Agreement) -> PrivateKeys:
    """The private keys in a file, which must belong to this agreement."""
    if not path.exists():
        raise StoreError(f"{path} does not exist. `yoro parties join FOLDER --party NAME --key {path}` makes it.")
    table = read_table(path, SECRET, FORMAT, limits.AGREEMENT_BYTES)
    with refuse_damaged(path):
        exchange, signing, seed = (parse_key(table[key]) for key in ("exchange", "signing", "seed"))
        masked, confirmed = cast("str | None", table["masked"]), cast("list[str] | None", table["confirmed"])
        done = masked, None if confirmed is None else tuple(map(str, confirmed))
        secret = PrivateKeys(str(table["party"]), str(table["agreement"]), exchange, signing, seed, *done)
    if secret.agreement != agreement.digest:
        raise StoreError(
            f"{path} is a key for another agreement. Join this one first; or was the agreement changed since?"
        )
    return secret


def owner(path: Path) -> str:
    """The party whose private keys a file holds; empty if it is another kind of file."""
    try:
        return str(read_table(path, SECRET, FORMAT, limits.AGREEMENT_BYTES)["party"])
    except (KeyError, YoroError):
        return ""


def write_signed(table: Json, path: Path, secret: PrivateKeys) -> None:
    """Write a table as JSON, signed by a party."""
    write_file(path, json.dumps(secret.signed(table), indent=1).encode())


def read_public(path: Path, agreement: Agreement, party: str) -> PublicKeys:
    """The public keys in a party's file."""
    table = read_table(path, PUBLIC, FORMAT, limits.AGREEMENT_BYTES)
    with refuse_damaged(path):
        exchange, signing = (parse_key(table[key]) for key in ("exchange", "signing"))
        public = PublicKeys(str(table["party"]), str(table["agreement"]), exchange, signing)
    public.verify(table, public.to_json(), path)
    if public.party != party:
        raise StoreError(f"{path} holds the keys of {public.party!r:.60}, not of {party}.")
    if public.agreement != agreement.digest:
        raise StoreError(f"{path} is for another agreement. Was the agreement changed since?")
    return public


def parse_key(text: object) -> bytes:
    """The bytes of a key written in hex."""
    key = bytes.fromhex(str(text))
    if len(key) != SIZE:
        raise ValueError(f"a key has {SIZE} bytes, not {len(key)}")
    return key
