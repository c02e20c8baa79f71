"""Where waiting work stands, in words. Input: `Lack`s and a position's source; output: text in the active language."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.core.formats import NOT_APPLICABLE, listed_apart, resource_text
from apps.quotas.gates import Blocked
from apps.quotas.lacking import Lack
from apps.quotas.sentences import amount_text

_SOURCES: dict[str, Promise] = {
    "kueue": gettext_lazy("said by Kueue"),
    "computed": gettext_lazy("computed"),
}


def position_source_label(source: str) -> str:
    return str(_SOURCES.get(source, source))


_BLOCKED: dict[str, Promise] = {
    "cluster_queue_stopped": gettext_lazy("its queue is stopped"),
    "cluster_queue_inactive": gettext_lazy("its queue is not active"),
    "cohort_cycle": gettext_lazy("the cohorts above its queue form a circle: Kueue skips it"),
    "local_queue_stopped": gettext_lazy("its LocalQueue is stopped"),
    "behind_head": gettext_lazy("it waits behind the head of its queue (StrictFIFO)"),
}


def blocked_text(blocked: Blocked) -> str:
    """What keeps work waiting beside quota; "" where nothing does."""
    return str(_BLOCKED[blocked]) if blocked else ""


def lack_text(found: Sequence[Lack] | None, blocked: Blocked = "") -> str:
    """ "6 GPU in h100"; "–" where nothing is known, and a word where nothing is short; then what else is in the way."""
    why = blocked_text(blocked)
    if found is None:
        return why or NOT_APPLICABLE
    if not found:
        return _("quota is free, but %(why)s") % {"why": why} if why else _("nothing: quota is free")
    return listed_apart([*(_one(lack) for lack in found), *([why] if why else [])])


def _one(lack: Lack) -> str:
    what = {"resource": resource_text(lack.resource), "flavor": lack.flavor}
    if not lack.offered:
        return _("%(resource)s: the queue has no quota of it") % what
    if lack.beyond is not None:
        return _("exceeds the ceiling by %(n)s %(resource)s") % {
            **what,
            "n": amount_text(lack.resource, lack.beyond),
        }
    what["n"] = amount_text(lack.resource, lack.missing)
    return (_("%(n)s %(resource)s in %(flavor)s") if lack.flavor else _("%(n)s %(resource)s")) % what
