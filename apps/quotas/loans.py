"""Who holds whose quota now. Input: the quota trees of clusters and the teams that the reader may see (None: all);
output: `LoanRow`s, accelerators first.

Invariants: a reader restricted to teams gets a loan where one of its two parties is a queue of these teams, and of the
other party nothing but name and amount; a loan is no entry in any book of Kueue's, it is how `QuotaTree.loans` lays what
is borrowed on what is lent, so `since` says "not before": the later of the moments from which the lender lends and
the borrower borrows without a break (None: not noted yet).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from django.utils.translation import gettext as _

from apps.fleet.models import Cluster
from apps.quotas.history import QueueKey, Since, borrowing_since
from apps.quotas.kueue import KueueCluster
from apps.quotas.rows import LoanRow
from apps.quotas.selectors import systems
from apps.quotas.snapshot import load_snapshot
from apps.quotas.tree import FlavorResource, Key, Loan

NEVER = "Never"


def loan_rows(
    *,
    now: datetime,
    clusters: Iterable[Cluster] | None = None,
    team_ids: Collection[int] | None = None,
) -> list[LoanRow]:
    """By cluster, flavor, resource, lender and borrower; accelerators first."""
    snapshot = load_snapshot(now=now, clusters=clusters)
    return loans_of((each for each in systems(snapshot) if isinstance(each, KueueCluster)), team_ids)


def loans_of(found: Iterable[KueueCluster], team_ids: Collection[int] | None) -> list[LoanRow]:
    """The same from trees that are there already. Queries: one, for since when."""
    made: list[tuple[KueueCluster, FlavorResource, Loan]] = []
    for system in found:
        own: set[Key] = {("ClusterQueue", name) for name in system.queues(team_ids)}
        for cell in sorted(_cells_with_loans(system, own)):
            for loan in system.tree.loans(cell):
                if team_ids is None or loan.lender in own or loan.borrower in own:
                    made.append((system, cell, loan))
    since = borrowing_since({key for system, cell, loan in made for key in _keys(system, cell, loan)})
    rows = [_row(system, cell, loan, since) for system, cell, loan in made]
    return sorted(rows, key=lambda row: (row.cluster.pk, not row.accelerator))


def _cells_with_loans(system: KueueCluster, own: set[Key]) -> set[FlavorResource]:
    """Where one of the queues borrows or lends: a whole tree is not asked for every flavor that it has."""
    tree = system.tree
    return {
        cell
        for key in own
        for cell in {*tree.node(*key).cells, *system.view.reserved.get(key, {})}
        if tree.borrowed(*key, cell) or tree.lent(*key, cell)
    }


def _keys(system: KueueCluster, cell: FlavorResource, loan: Loan) -> list[QueueKey]:
    parties = [loan.borrower] if loan.lender[0] == "Cohort" else [loan.lender, loan.borrower]
    return [(system.view.cluster.pk, kind, name, *cell) for kind, name in parties]


def _row(system: KueueCluster, cell: FlavorResource, loan: Loan, since: dict[QueueKey, Since]) -> LoanRow:
    cluster = system.view.cluster
    (lender_kind, lender), borrower = loan.lender, loan.borrower[1]
    what = system.snapshot.meaning(cluster.pk, *cell)
    begun = since.get((cluster.pk, "ClusterQueue", borrower, *cell), (None, None))[0]
    if lender_kind == "ClusterQueue" and begun is not None:
        lent_since = since.get((cluster.pk, lender_kind, lender, *cell), (None, None))[1]
        begun = None if lent_since is None else max(begun, lent_since)
    return LoanRow(
        cluster=cluster,
        lender_kind=lender_kind,
        lender=lender,
        borrower=borrower,
        flavor=cell[0],
        resource=cell[1],
        accelerator=what.accelerator,
        unit=what.unit,
        model_label=what.model_label,
        amount=loan.amount,
        since=begun,
        reclaim=_reclaim(system, loan.lender),
        lender_teams=tuple(sorted(system.view.teams.get(loan.lender, ()))),
        borrower_teams=tuple(sorted(system.view.teams.get(loan.borrower, ()))),
    )


def _reclaim(system: KueueCluster, lender: Key) -> str:
    """The lender's reclaimWithinCohort; "" of a cohort, which takes nothing back itself."""
    if lender[0] == "Cohort":
        return ""
    item = system.view.objects[lender[0]].get(lender[1])
    preemption = (item.spec.get("preemption") if item else None) or {}
    return str(preemption.get("reclaim_within_cohort") or NEVER)


def comes_back(row: LoanRow) -> str:
    """How the lender gets it back, in words."""
    if row.lender_kind == "Cohort":
        return _("The cohort's own quota: free again when the borrower's work ends.")
    if row.reclaim == "LowerPriority":
        return _("When the lender's work needs it: by preempting the borrower's work of lower priority.")
    if row.reclaim == "Any":
        return _("When the lender's work needs it: by preempting the borrower's work, whatever its priority.")
    return _("When the borrower's work ends: the lender preempts nothing to get it back.")
