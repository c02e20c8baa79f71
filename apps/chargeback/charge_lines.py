"""Single lines of the ledger and of open periods, as they are told to other systems.

Input: which lines, from which sequence on; output: JSON objects as text, written by the database, since a whole ledger is
pulled page by page. Invariants
- Lines come in the order of their sequence, which is unique among what is asked for: the ledger's own, or an open
  period's provisional one.
- Names are those of when the period was closed; decimals are text without trailing zeros, times UTC with Z; what has no
  price has no currency, price and amount (null, never 0)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django.db import connection

from apps.chargeback.models import BillingPeriod, LedgerEntry
from apps.chargeback.statements import lines_model
from apps.fleet.selectors import UNBOUND


@dataclass(frozen=True, slots=True)
class ChargeCriteria:
    """ "" and None: any. `team`: a slug, "-" what belonged to no team. `correction`: True only, False none."""

    cluster: str = ""
    team: str = ""
    queue: str = ""
    flavor: str = ""
    model: str = ""
    basis: str = ""
    correction: bool | None = None


@dataclass(frozen=True, slots=True)
class ChargePage:
    """`rows`: JSON objects; `last`: the sequence to go on after, None when nothing is left."""

    rows: list[str]
    last: int | None


def _number(column: str) -> str:
    return f"trim_scale(l.{column})::text"


def _instant(column: str) -> str:
    return f"""to_char(l.{column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')"""


def _null(column: str) -> str:
    return f"nullif(l.{column}, '')"


FIELDS = {
    "sequence": "l.sequence",
    "period": "p.month",
    "correction": "l.correction",
    "corrects": "l.corrects",
    "cluster": "c.slug",
    "team": "t.slug",
    "cost_centre": _null("cost_centre"),
    "basis": "l.basis",
    "kind": "l.kind",
    "queue": _null("queue"),
    "flavor": _null("flavor"),
    "resource": "l.resource",
    "model": _null("model"),
    "sharing_mode": _null("sharing_mode"),
    "profile": _null("profile"),
    "cards_per_unit": "l.weight_over || '/' || l.weight_under",
    "priority_class": _null("priority_class"),
    "borrowed": "l.borrowed",
    "seen": "l.seen",
    "starts_at": _instant("starts_at"),
    "ends_at": _instant("ends_at"),
    "unit_seconds": _number("unit_seconds"),
    "rate_card": "l.version_id",
    "currency": _null("currency"),
    "price_per_unit_hour": _number("price_per_hour"),
    "factor": _number("factor"),
    "weight": "l.priced_over || '/' || l.priced_under",
    "amount": _number("amount"),
}
_JSON = ", ".join(f"'{name}', {expression}" for name, expression in FIELDS.items())
# Names of a closed period are its own; of an open one those of today.
_LINES = """
WITH periods AS MATERIALIZED (
  SELECT id, month, names FROM chargeback_billingperiod WHERE {periods}
), teams AS MATERIALIZED (
  SELECT p.id AS period_id, n.key::bigint AS id, n.value AS slug FROM periods p, jsonb_each_text(p.names->'teams') n
  UNION ALL SELECT p.id, t.id, t.slug FROM periods p, accounts_team t WHERE p.names = '{{}}'
), clusters AS MATERIALIZED (
  SELECT p.id AS period_id, n.key::bigint AS id, n.value AS slug FROM periods p, jsonb_each_text(p.names->'clusters') n
  UNION ALL SELECT p.id, c.id, c.slug FROM periods p, fleet_cluster c WHERE p.names = '{{}}'
), chosen AS MATERIALIZED (
  SELECT l.* FROM {lines} l WHERE {where} ORDER BY l.sequence LIMIT %(most)s
)
SELECT l.sequence, json_build_object({json})::text
FROM chosen l JOIN periods p ON p.id = l.period_id
JOIN clusters c ON c.period_id = l.period_id AND c.id = l.cluster_id
LEFT JOIN teams t ON t.period_id = l.period_id AND t.id = l.team_id
ORDER BY l.sequence
"""


def charge_page(
    *,
    period: BillingPeriod | None,
    team_ids: Collection[int] | None,
    criteria: ChargeCriteria,
    after: int,
    size: int,
) -> ChargePage:
    """Lines with a sequence higher than `after`. `period` None: of all closed periods. One query."""
    model = LedgerEntry if period is None else lines_model(period)
    conditions, given = _narrowed(criteria, team_ids)
    given |= {"after": after, "most": size + 1}
    if period is not None:
        conditions.append("l.period_id = %(period)s")
        given["period"] = period.pk
    statement = _LINES.format(
        lines=model._meta.db_table,
        periods="state = 'closed'" if period is None else "id = %(period)s",
        where=" AND ".join(["l.sequence > %(after)s", *conditions]),
        json=_JSON,
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, given)
        found = cursor.fetchall()
    taken = found[:size]
    return ChargePage([text for _sequence, text in taken], taken[-1][0] if len(found) > size else None)


def _narrowed(criteria: ChargeCriteria, team_ids: Collection[int] | None) -> tuple[list[str], dict[str, Any]]:
    conditions: list[str] = []
    given: dict[str, Any] = {}
    if team_ids is not None:
        conditions.append("l.team_id = ANY (%(teams)s)")
        given["teams"] = list(team_ids)
    if criteria.team == UNBOUND:
        conditions.append("l.team_id IS NULL")
    elif criteria.team:
        conditions.append("l.team_id = (SELECT id FROM accounts_team WHERE slug = %(team)s)")
        given["team"] = criteria.team
    if criteria.cluster:
        conditions.append("l.cluster_id = (SELECT id FROM fleet_cluster WHERE slug = %(cluster)s)")
        given["cluster"] = criteria.cluster
    for name in ("queue", "flavor", "model", "basis"):
        if value := getattr(criteria, name):
            conditions.append(f"l.{name} = %({name})s")
            given[name] = value
    if criteria.correction is not None:
        conditions.append("l.correction" if criteria.correction else "NOT l.correction")
    return conditions, given


def last_sequence(period: BillingPeriod | None = None) -> int:
    """Of a closed period's lines; None: of the whole ledger. 0 when there are none."""
    found = LedgerEntry.objects.all() if period is None else LedgerEntry.objects.filter(period=period)
    return found.order_by("-sequence").values_list("sequence", flat=True).first() or 0
