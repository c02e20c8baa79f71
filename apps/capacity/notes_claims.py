"""What does not fit together between claims and devices. Input: a fleet; output: `Note`s with the claims.

A claim that nobody reserves keeps its devices from others; one whose devices are listed no more is in no number at
all. Cards that several nodes reach are no single node's, and so in no pool. A driver that no vendor file knows is
worth a note only when its name reads like an accelerator's: network cards and processors have drivers too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.capacity.facts import Fleet
from apps.capacity.rows import Note, Ref
from apps.fleet.models import Cluster
from apps.fleet.unregistered import looks_like_accelerator

NAMES_SHOWN = 3


def claim_notes(fleet: Fleet) -> Iterator[Note]:
    """At most one note of each code and cluster, and one per driver with unknown or shared devices."""
    for pk, adrift in sorted(fleet.adrift.items()):
        cluster = fleet.clusters[pk]
        if adrift.without_pod:
            text = ngettext(
                "%(count)d ResourceClaim holds devices and no pod uses it: %(names)s.",
                "%(count)d ResourceClaims hold devices and no pod uses them: %(names)s.",
                len(adrift.without_pod),
            )
            yield _note("claim_without_pod", cluster, text, adrift.without_pod)
        if adrift.orphans:
            text = ngettext(
                "%(count)d ResourceClaim is allocated on devices that no driver lists: %(names)s.",
                "%(count)d ResourceClaims are allocated on devices that no driver lists: %(names)s.",
                len(adrift.orphans),
            )
            yield _note("claim_orphan", cluster, text, adrift.orphans)
        for driver, count in adrift.unowned:
            text = ngettext(
                "The DRA driver %(driver)s lists %(count)d card that several nodes reach: it is in no pool.",
                "The DRA driver %(driver)s lists %(count)d cards that several nodes reach: they are in no pool.",
                count,
            )
            words = {"driver": driver, "count": count}
            yield Note("dra_unowned", cluster, text % words, (driver,), (Ref("resource", driver),))
        for driver, count in adrift.unregistered:
            if looks_like_accelerator(f"{driver}/device"):
                text = _(
                    "The DRA driver %(driver)s lists %(count)d devices that are counted nowhere. Add it under "
                    "`drivers:` in a file of apps/fleet/data."
                )
                words = {"driver": driver, "count": count}
                yield Note("unregistered", cluster, text % words, (driver,), (Ref("resource", driver),))


def _note(code: str, cluster: Cluster, text: str, claims: Sequence[tuple[str, str]]) -> Note:
    names = [f"{namespace}/{name}" for namespace, name in claims]
    shown = ", ".join(names[:NAMES_SHOWN])
    if len(names) > NAMES_SHOWN:
        shown = _("%(names)s and %(more)d more") % {"names": shown, "more": len(names) - NAMES_SHOWN}
    refs = tuple(Ref("ResourceClaim", name, namespace) for namespace, name in claims)
    return Note(code, cluster, text % {"count": len(names), "names": shown}, tuple(names), refs)
