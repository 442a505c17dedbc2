"""The retry policy: which HTTP statuses are worth a retry, exponential backoff with jitter, and Retry-After."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

FIRST_BACKOFF = 0.25  # seconds, the upper bound before the first retry
LONGEST_BACKOFF = 30.0  # seconds


def is_retryable(status: int) -> bool:
    """Whether the same request may succeed later: timeouts, rate limits and server errors.

    >>> [status for status in (200, 301, 400, 401, 404, 408, 422, 429, 500, 503) if is_retryable(status)]
    [408, 429, 500, 503]
    """
    return status in (408, 429) or 500 <= status < 600


def backoff(attempt: int, generator: random.Random) -> float:
    """Seconds before the next attempt: uniform from zero to a bound that doubles with every attempt ("full jitter").

    So clients that failed together do not come back together.
    """
    return generator.uniform(0.0, min(LONGEST_BACKOFF, FIRST_BACKOFF * 2.0 ** min(attempt, 16)))


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds that a server asks us to wait by its Retry-After header; None without one in a known form.

    >>> retry_after({"retry-after": "7"}), retry_after({}), retry_after({"retry-after": "soon"})
    (7.0, None, None)
    """
    given = headers.get("retry-after", "").strip()
    if given.isascii() and given.isdigit() and len(given) < 10:
        return float(given)
    try:
        until = parsedate_to_datetime(given)
    except (ValueError, TypeError, IndexError):
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return max(0.0, (until - (now or datetime.now(UTC))).total_seconds())
