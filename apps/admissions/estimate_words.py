"""Start estimates in words. Input: an `Estimate` or None; output: text in the active language."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.admissions.estimates import FEWEST_AS_LONG, FEWEST_ENDED, SHARE, Estimate
from apps.core.formats import NOT_APPLICABLE, duration_text, percent_text

_WHY_NOT: dict[str, Promise] = {
    "no_queue": gettext_lazy("no estimate: its queue is not known"),
    "not_by_waiting": gettext_lazy("no estimate: waiting alone does not end this"),
}


def estimate_text(found: Estimate | None) -> str:
    """ "in 20 m – 3 h 00 m (80 % of 124 comparable waits)", or why there is no range; "–" where nothing waits for
    quota."""
    if found is None:
        return NOT_APPLICABLE
    if found.why_not == "too_few":
        return _(
            "not enough history: %(n)s comparable waits ended in the last 28 days, %(needed)s are needed"
        ) % {
            "n": found.ended,
            "needed": FEWEST_ENDED,
        }
    if found.why_not == "too_few_as_long":
        return _(
            "not enough history: %(n)s that waited as long as this ended in the last 28 days, %(needed)s are needed"
        ) % {
            "n": found.ended,
            "needed": FEWEST_AS_LONG,
        }
    if found.why_not:
        return str(_WHY_NOT[found.why_not])
    return " ".join([_range(found), _sample(found)])


def _range(found: Estimate) -> str:
    low = duration_text(found.low or 0)
    if found.high is None:
        return _("in %(low)s or later, no end known") % {"low": low}
    return _("in %(low)s – %(high)s") % {"low": low, "high": duration_text(found.high)}


def _sample(found: Estimate) -> str:
    waits = ngettext("%(n)d comparable wait", "%(n)d comparable waits", found.sample) % {"n": found.sample}
    what = {"share": percent_text(float(SHARE)), "waits": waits}
    if found.basis == "size_or_larger":
        return _("(%(share)s, %(waits)s of this size or larger)") % what
    return _("(%(share)s, %(waits)s)") % what
