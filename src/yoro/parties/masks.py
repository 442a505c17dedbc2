"""Pairwise masks: streams of random integers that two parties share; one adds them, the other subtracts them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from yoro.parties.fixed_point import Limbs, add, subtract
from yoro.parties.keys import SIZE, PrivateKeys, PublicKeys

INTEGERS_PER_STEP = 1 << 18  # of a stream: 4 MB
INTEGER = 16  # bytes of one


def pair_key(secret: PrivateKeys, other: PublicKeys, context: str) -> bytes:
    """The key of the stream that two parties share; both derive the same.

    `context` is a digest of the agreement and of everybody's public keys, so that no two sessions share a stream.
    """
    pair = "/".join(sorted((secret.party, other.party)))
    return _derived(secret.shared(other), context, f"pair/{pair}")


def own_key(secret: PrivateKeys, context: str) -> bytes:
    """The key of a party's own stream, which it reveals with its confirmation."""
    return _derived(secret.seed, context, f"own/{secret.party}")


def noise_bytes(secret: PrivateKeys, context: str, count: int) -> bytes:
    """Random bytes for a party's noise; repeatable, so that a message made twice is the same."""
    return _stream(_derived(secret.seed, context, f"noise/{secret.party}"))(count)


def mask(limbs: Limbs, key: bytes, *, sign: int) -> None:
    """Add a stream to integers in place, or subtract it, modulo 2^128."""
    apply: Callable[[Limbs, Limbs], None] = add if sign > 0 else subtract
    stream = _stream(key)
    for start in range(0, len(limbs), INTEGERS_PER_STEP):
        piece = limbs[start : start + INTEGERS_PER_STEP]
        drawn = np.frombuffer(stream(len(piece) * INTEGER), dtype="<u8")
        apply(piece, drawn.astype(np.uint64, copy=False).reshape(len(piece), 2))


def pair_sign(party: str, other: str) -> int:
    """1 for the party that adds the mask of a pair, the first by name; -1 for the other."""
    return 1 if party < other else -1


def _stream(key: bytes) -> Callable[[int], bytes]:
    """The keystream of ChaCha20 under a key that is used once: the next so many bytes."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    cipher = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    return lambda count: bytes(cipher.update(bytes(count)))


def _derived(secret: bytes, context: str, purpose: str) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return bytes(HKDF(SHA256(), SIZE, bytes.fromhex(context), f"yoro-parties/1/{purpose}".encode()).derive(secret))
