"""Masks: streams of random integers that two parties know, one adds and the other takes away."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from yoro.parties.fixed_point import Limbs, add, subtract
from yoro.parties.keys import SIZE, Public, Secret

PIECE = 1 << 18  # integers of a stream that are made at once: 4 MB
INTEGER = 16  # bytes of one


def pair_key(secret: Secret, other: Public, context: str) -> bytes:
    """The key of the stream that a party shares with another; the other finds the same.

    `context` is a digest of the agreement and of everybody's public keys, so that no two sessions share a stream.
    """
    pair = "/".join(sorted((secret.party, other.party)))
    return _derived(secret.shared(other), context, f"pair/{pair}")


def own_key(secret: Secret, context: str) -> bytes:
    """The key of the stream that a party alone knows, until it confirms whose messages are added up."""
    return _derived(secret.seed, context, f"own/{secret.party}")


def noise_bytes(secret: Secret, context: str, count: int) -> bytes:
    """Random bytes for the noise of a party; the same again, so that a message made twice is the same."""
    return _Stream(_derived(secret.seed, context, f"noise/{secret.party}")).content(count)


def mask(limbs: Limbs, key: bytes, *, sign: int) -> None:
    """Add a stream to integers in place, or take it away, modulo 2^128."""
    apply: Callable[[Limbs, Limbs], None] = add if sign > 0 else subtract
    stream = _Stream(key)
    for start in range(0, len(limbs), PIECE):
        piece = limbs[start : start + PIECE]
        apply(piece, stream.integers(len(piece)))


def pair_sign(party: str, other: str) -> int:
    """Who adds the mask of a pair: the first by name; the other takes it away."""
    return 1 if party < other else -1


class _Stream:
    """ChaCha20 of a key that is used once: its bytes cannot be told from random ones."""

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

        self._cipher = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()

    def integers(self, count: int) -> Limbs:
        """The next integers."""
        content = self.content(count * INTEGER)
        return np.frombuffer(content, dtype="<u8").astype(np.uint64, copy=False).reshape(count, 2)

    def content(self, count: int) -> bytes:
        """The next bytes."""
        return bytes(self._cipher.update(bytes(count)))


def _derived(secret: bytes, context: str, purpose: str) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return bytes(HKDF(SHA256(), SIZE, bytes.fromhex(context), f"yoro-parties/1/{purpose}".encode()).derive(secret))
