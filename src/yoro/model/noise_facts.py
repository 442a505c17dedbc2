"""What is recorded of noise in statistics, in sentences; the noise itself is made in `parties`."""

from __future__ import annotations

from collections.abc import Mapping

NOISE = "noise"  # the fact of a shard: a table of its parts to epsilon, delta and clip


def noise_told(facts: Mapping[str, object]) -> list[str]:
    """Sentences on the noise that is in the sums, one for each promise."""
    noise, promises = facts.get(NOISE), dict[str, int]()
    for entry in noise.values() if isinstance(noise, dict) else ():
        numbers = [entry.get(key) for key in ("epsilon", "delta", "clip")] if isinstance(entry, dict) else []
        if numbers and all(isinstance(number, int | float) for number in numbers):
            epsilon, delta, clip = numbers
            told = f"epsilon {epsilon:g}, delta {delta:g} for adding or removing one image, clipped to {clip:g}"
            promises[told] = promises.get(told, 0) + 1
    return [f"Noise: {told}{f'; {n} parts' if n > 1 else ''}." for told, n in promises.items()]
