"""Why a period is not closed, in words. Input: the refusal; output: sentences in the reader's language."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.translation import gettext as _

from apps.chargeback.ledger import NotClosable


def refusal_text(error: NotClosable) -> str:
    missing = error.missing
    if error.code == "running":
        return _("The period has not ended; it ends at %(at)s.") % {"at": missing["ends_at"]}
    if error.code == "before":
        return _("%(month)s comes first: periods are closed in their order.") % {"month": missing["month"]}
    if error.code == "behind":
        text = _("Hours of these clusters are not computed up to its end: %(clusters)s.")
        return text % {"clusters": ", ".join(missing["clusters"])}
    return _("Something is missing: %(missing)s. Give a reason to close all the same.") % {
        "missing": missing_text(missing)
    }


def missing_text(missing: Mapping[str, Mapping[str, str]]) -> str:
    """What has no price and what nobody saw, with unit-hours; "" where nothing is missing."""
    parts = [
        (_("%(hours)s unit-hours of %(resource)s without a price"), missing.get("unpriced", {})),
        (_("%(hours)s unit-hours of %(resource)s that nobody saw"), missing.get("left_out", {})),
    ]
    return "; ".join(
        text % {"hours": hours, "resource": resource}
        for text, found in parts
        for resource, hours in sorted(found.items())
    )
