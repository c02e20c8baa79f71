"""What is said of work that cannot start. Input: a head after its cycle, the queue's resource groups; output: `Pending`."""

from __future__ import annotations

from collections.abc import Sequence

from apps.quotas.engine.model import Group, Pending, Reason, Refused
from apps.quotas.engine.nominate import Head

_SEVERITY: tuple[Refused, ...] = (
    "WaitingForPreemption",
    "WaitingForQuota",
    "NoPlacement",
    "ExceedsMaxQuota",
    "NoMatchingFlavor",
    "ResourceNotCovered",
)


def pending_of(head: Head, groups: Sequence[Group]) -> Pending:
    """The verdict on a head that was not admitted."""
    reasons = _all_reasons(head)
    if head.waits_for_victims:
        return Pending(head.work.uid, "WaitingForPreemption", reasons, victims=len(head.victims))
    if head.skipped or not reasons:
        return Pending(head.work.uid, "WaitingForQuota", reasons, skipped=head.skipped)
    if head.resumed and head.waiter.verdict is not None:
        # A flavor that fitted before has no reason to name; what was told of all flavors stands.
        return Pending(head.work.uid, head.waiter.verdict.refused, reasons)
    return Pending(head.work.uid, verdict_of(reasons, groups), reasons)


def _all_reasons(head: Head) -> tuple[Reason, ...]:
    """Of this attempt and, where it went on with the next flavor, of those before."""
    reasons = tuple(head.assignment.reasons)
    if not head.resumed or head.waiter.verdict is None:
        return reasons
    cells = {(reason.pod_set, reason.flavor, reason.resource) for reason in reasons}
    before = head.waiter.verdict.reasons
    return (*(r for r in before if (r.pod_set, r.flavor, r.resource) not in cells), *reasons)


def verdict_of(reasons: Sequence[Reason], groups: Sequence[Group] = ()) -> Refused:
    """What has to change first. A flavor does as badly as the worst of its resources, a resource group as well as the best
    of its flavors, the work as badly as the worst of its pod sets and groups. `groups`: of the queue; without them all
    flavors are taken as one group."""
    worst: dict[tuple[str, int], dict[str, int]] = {}
    for reason in reasons:
        group = next((i for i, found in enumerate(groups) if reason.flavor in found.flavors), -1)
        flavors = worst.setdefault((reason.pod_set, group if reason.flavor else -2), {})
        flavors[reason.flavor] = max(flavors.get(reason.flavor, 0), _SEVERITY.index(reason.code))
    return _SEVERITY[max(min(flavors.values()) for flavors in worst.values())]
