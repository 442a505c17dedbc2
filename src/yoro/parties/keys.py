"""Keys of a party: a secret file that stays with it, and a public one that all others need.

One pair of keys (X25519) agrees on a secret with every other party, the other (Ed25519) signs what the party sends.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from yoro import limits
from yoro.environment import install
from yoro.errors import InputError, StoreError
from yoro.files.atomic import drafted_file, write_file
from yoro.model.model import Json
from yoro.parties.agreement import Agreement, digest_of, read_table

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

SECRET, PUBLIC = "yoro-party-key", "yoro-party-public"
FORMAT = 1
SIZE = 32  # bytes of every key
PRIVATE = 0o600  # the mode of a secret file


@dataclass(frozen=True)
class Secret:
    """What only the party knows, and what it has done in the session: each thing once."""

    party: str
    agreement: str  # its digest
    exchange: bytes
    signing: bytes
    seed: bytes  # of the mask that hides the party's message from all who know the masks it shares with others
    masked: str | None = None  # digest of the message that was made
    confirmed: tuple[str, ...] | None = None  # parties whose messages are to be added up

    @property
    def public(self) -> Public:
        """What the others need of it."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        signing = Ed25519PrivateKey.from_private_bytes(self.signing).public_key().public_bytes_raw()
        return Public(self.party, self.agreement, self._exchange().public_key().public_bytes_raw(), signing)

    def shared(self, other: Public) -> bytes:
        """The secret that this party and another have in common."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

        try:
            return bytes(self._exchange().exchange(X25519PublicKey.from_public_bytes(other.exchange)))
        except ValueError:
            raise InputError(f"The public key of {other.party} is none: nothing secret can be shared by it.") from None

    def sign(self, content: bytes) -> str:
        """A signature in hex."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return bytes(Ed25519PrivateKey.from_private_bytes(self.signing).sign(content)).hex()

    def signed(self, table: Json) -> Json:
        """A table with a signature of all else in it."""
        return table | {"signature": self.sign(digest_of(table).encode())}

    def _exchange(self) -> X25519PrivateKey:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        return X25519PrivateKey.from_private_bytes(self.exchange)


@dataclass(frozen=True)
class Public:
    """What others know of a party."""

    party: str
    agreement: str
    exchange: bytes
    signing: bytes

    @property
    def fingerprint(self) -> str:
        """Of both keys, to be compared by other means than the files came by: over the telephone, say."""
        digest = digest_of([self.party, self.exchange.hex(), self.signing.hex()])[:SIZE]
        return " ".join(digest[i : i + 4] for i in range(0, SIZE, 4))

    def check(self, signature: object, content: bytes, name: str) -> None:
        """Raise unless this party signed the content; `name` is shown in the error."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(self.signing).verify(bytes.fromhex(str(signature)), content)
        except (InvalidSignature, ValueError):
            raise StoreError(f"{name} is not what {self.party} signed: it was changed, or is another's.") from None

    def to_json(self) -> Json:
        """The same as plain values."""
        return {
            "kind": PUBLIC, "format": FORMAT, "party": self.party, "agreement": self.agreement,
            "exchange": self.exchange.hex(), "signing": self.signing.hex(),
        }  # fmt: skip


def need_cryptography() -> None:
    """Raise, with what to type, if the package that the keys need is not installed."""
    try:
        import cryptography  # noqa: F401
    except ModuleNotFoundError:
        raise InputError(f"Parties need the package cryptography: {install('parties')}.") from None


def make_secret(agreement: Agreement, party: str) -> Secret:
    """New keys of a party."""
    if party not in agreement.parties:
        raise InputError(f"{party!r:.60} is no party of the agreement; they are {', '.join(agreement.parties)}.")
    exchange, signing, seed = (secrets.token_bytes(SIZE) for _ in range(3))
    return Secret(party, agreement.digest, exchange, signing, seed)


def write_secret(secret: Secret, path: Path) -> None:
    """Write the file so that only its owner can read it."""
    table: Json = {
        "kind": SECRET, "format": FORMAT, "party": secret.party, "agreement": secret.agreement,
        "exchange": secret.exchange.hex(), "signing": secret.signing.hex(), "seed": secret.seed.hex(),
        "masked": secret.masked, "confirmed": None if secret.confirmed is None else list(secret.confirmed),
    }  # fmt: skip
    with drafted_file(path) as draft:
        draft.chmod(PRIVATE)  # before there is anything in it
        draft.write_bytes(json.dumps(table, indent=1).encode())


def read_secret(path: Path, agreement: Agreement) -> Secret:
    """The keys of a file, which must be of this agreement."""
    table = read_table(path, SECRET, FORMAT, limits.AGREEMENT_BYTES)
    try:
        exchange, signing, seed = (_key(table[key]) for key in ("exchange", "signing", "seed"))
        masked, confirmed = cast("str | None", table["masked"]), cast("list[str] | None", table["confirmed"])
        done = masked, None if confirmed is None else tuple(map(str, confirmed))
        secret = Secret(str(table["party"]), str(table["agreement"]), exchange, signing, seed, *done)
    except (KeyError, ValueError, TypeError) as error:
        raise StoreError(f"{path} is damaged: {type(error).__name__} at {str(error)[:60]}.") from None
    if secret.agreement != agreement.digest:
        raise StoreError(f"{path} is a key for another agreement than this: join it first, or was it changed since?")
    return secret


def write_public(public: Public, path: Path, secret: Secret) -> None:
    """Write the file, signed by the keys that it shows."""
    write_file(path, json.dumps(secret.signed(public.to_json()), indent=1).encode())


def read_public(path: Path, agreement: Agreement, party: str) -> Public:
    """The public keys of a party, from its file."""
    table = read_table(path, PUBLIC, FORMAT, limits.AGREEMENT_BYTES)
    try:
        public = Public(str(table["party"]), str(table["agreement"]), _key(table["exchange"]), _key(table["signing"]))
    except (KeyError, ValueError) as error:
        raise StoreError(f"{path} is damaged: {type(error).__name__} at {str(error)[:60]}.") from None
    public.check(table.get("signature"), digest_of(public.to_json()).encode(), str(path))
    if public.party != party:
        raise StoreError(f"{path} has the keys of {public.party!r:.60}, not of {party}.")
    if public.agreement != agreement.digest:
        raise StoreError(f"{path} is for another agreement than this one. Was the agreement changed since?")
    return public


def having_done(secret: Secret, **done: object) -> Secret:
    """The same keys, which have now been used."""
    return replace(secret, **done)  # type: ignore[arg-type]


def _key(text: object) -> bytes:
    key = bytes.fromhex(str(text))
    if len(key) != SIZE:
        raise ValueError("a key")
    return key
