"""Idle capacity as lines: what nobody held and nobody is charged for, shared out by the rate card's policy.

Input: hours of supply and of what was held, and published rate cards; output: the table `idle_shares` of the open
transaction. Invariants
- Only a rate card that has a price of the basis "idle" charges any; a stretch lasts from one card to the next within the
  period.
- Shares of a stretch add up to what was idle, whatever the policy: sharing out changes no total.
- Proportional: by what each team held of that very kind of unit on that cluster, in the basis that is charged. Even: one part
  for each team that held anything there. What nobody can be asked for, and all of it where the platform carries it, is of no
  team."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from django.db import connection

from apps.chargeback import idle_sql as sql
from apps.chargeback.tariff import Tariff, Version

IDLE = "idle"
CHARGED_FOR = ("reserved", "pod", "nominal")
"""Bases of what is held; the first that has a price says who held how much."""


@dataclass(frozen=True, slots=True)
class Shared:
    """A stretch of which idle capacity is charged, by `version`."""

    low: datetime
    high: datetime
    version: Version


def fill_shares(tariff: Tariff, start: datetime, end: datetime, *, until: datetime) -> list[Shared]:
    """Make the table of shares of a whole period anew. `until`: how far it has come."""
    stretches = _charged(tariff, start, end)
    with connection.cursor() as cursor:
        cursor.execute(sql.MAKE_SHARES)
        cursor.execute("TRUNCATE idle_shares")
        for one in stretches:
            if until <= one.low:
                break
            bases = one.version.bases
            given: dict[str, Any] = {
                "low": one.low,
                "high": one.high,
                "until": min(one.high, until),
                "paid": list(bases),
                "held": next((basis for basis in CHARGED_FOR if basis in bases), CHARGED_FOR[0]),
            }
            cursor.execute(sql.add_shares(one.version.idle), given)
        cursor.execute("ANALYZE idle_shares")
    return stretches


def _charged(tariff: Tariff, start: datetime, end: datetime) -> list[Shared]:
    found = []
    for low, high in pairwise([start, *tariff.changes(start, end), end]):
        version = tariff.at(low)
        if version is not None and IDLE in version.bases:
            found.append(Shared(low, high, version))
    return found
