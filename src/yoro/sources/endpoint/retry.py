"""Which failures are tried again, and how long to wait before."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

FIRST = 0.25  # seconds that the first wait takes at most
MOST = 30.0  # seconds that any wait of our own takes at most


def passing(status: int) -> bool:
    """Whether a status says that the same request may be answered later.

    >>> [status for status in (200, 301, 400, 401, 404, 408, 422, 429, 500, 503) if passing(status)]
    [408, 429, 500, 503]
    """
    return status in (408, 429) or 500 <= status < 600


def pause(attempt: int, draw: random.Random) -> float:
    """Seconds before the next attempt, after so many: from nothing up to a bound that doubles each time.

    The whole of it is drawn by lot, so that clients that failed together do not come back together.
    """
    return draw.uniform(0.0, min(MOST, FIRST * 2.0 ** min(attempt, 16)))


def asked_to_wait(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds that a server asks us to wait, from its Retry-After; None where it does not, or not in a known form.

    >>> asked_to_wait({"retry-after": "7"}), asked_to_wait({}), asked_to_wait({"retry-after": "soon"})
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
