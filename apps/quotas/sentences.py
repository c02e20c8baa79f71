"""A quota row in plain words. Input: a row; output: sentences in the active language."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

from django.utils.translation import get_language, ngettext
from django.utils.translation import gettext as _

from apps.core.formats import listed
from apps.core.gpu import profile_label, unit_label
from apps.core.quantity import plain
from apps.fleet.registry import classify_resource, registry
from apps.quotas.rows import LoanRow, QuotaRow
from apps.quotas.volcano_reading import DEVICE_CLASS

NAMED_PARTIES = 3
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def is_bytes(resource: str) -> bool:
    return resource == "memory" or resource.endswith("-storage")


def amount_text(resource: str, value: Decimal) -> str:
    """A number with its unit where the resource has one: "4 TiB" of memory, else plain digits."""
    if not is_bytes(resource):
        return plain(value)
    power = 0
    while abs(value) >= 1024 and power < len(_BINARY) - 1:
        value, power = value / 1024, power + 1
    return f"{plain(value.quantize(Decimal('0.1')))} {_BINARY[power]}"


def noun_of(row: QuotaRow | LoanRow) -> str:
    """What is counted: "H100 80GB", "MIG 1g.10gb", "time slices of L4". The model where it is known, else flavor or
    resource; the unit unless it is a whole card."""
    if row.resource.startswith(DEVICE_CLASS):
        return _("devices of class %(name)s") % {"name": row.resource.removeprefix(DEVICE_CLASS)}
    if not row.accelerator:
        names = {"cpu": _("CPU cores"), "memory": _("memory")}
        return names.get(row.resource, row.resource)
    known = classify_resource(row.resource)
    vendor = registry().vendors[known.vendor].name if known is not None else row.resource
    model = row.model_label or row.flavor or _("%(vendor)s devices") % {"vendor": vendor}
    if known is not None and known.profile:
        return _("%(profile)s of %(model)s") % {"profile": profile_label(known.profile), "model": model}
    if row.unit in ("card", "device", "") or not (row.model_label or row.flavor):
        return model
    return _("%(units)s of %(model)s") % {"units": unit_label(row.unit), "model": model}


def describe(row: QuotaRow, loans: Iterable[LoanRow] = ()) -> str:
    """ "Uses 24 of 32 H100. 8 of these are borrowed from ml-platform. …" With the `loans` of a cluster the other
    parties are named, without them the cohort."""
    mine = [loan for loan in loans if _same_cell(row, loan)]
    parts = [_use(row), *_borrowing(row, mine), *_growth(row), *_waiting(row), *_state(row)]
    # A full-width stop brings its own space.
    between = "" if (get_language() or "").startswith("zh") else " "
    return between.join(part for part in parts if part)


def _same_cell(row: QuotaRow, loan: LoanRow) -> bool:
    return (loan.cluster.pk, loan.flavor, loan.resource) == (row.cluster.pk, row.flavor, row.resource)


def _text(row: QuotaRow, value: Decimal) -> str:
    return amount_text(row.resource, value)


def _use(row: QuotaRow) -> str:
    used = _text(row, row.reserved)
    if not row.listed:
        return _("Still holds %(used)s %(noun)s in a flavor that the queue no longer lists.") % {
            "used": used,
            "noun": noun_of(row),
        }
    what = {"used": used, "noun": noun_of(row)}
    if row.nominal is None:
        return _("Uses %(used)s %(noun)s; no share is set.") % what
    what["nominal"] = _text(row, row.nominal)
    if row.system == "volcano" and row.plugin == "proportion":
        return (
            _("Uses %(used)s %(noun)s; deserves %(nominal)s now, which moves with demand (proportion).")
            % what
        )
    if row.system == "volcano" and row.plugin:
        return _("Uses %(used)s %(noun)s; deserves %(nominal)s (%(plugin)s).") % {
            **what,
            "plugin": row.plugin,
        }
    if row.nominal == row.ceiling == row.reserved == 0:
        return _("Has no %(noun)s and can borrow none.") % what
    if not row.nominal and row.cohort:
        return _("Has no %(noun)s of its own; uses %(used)s.") % what
    return _("Uses %(used)s of %(nominal)s %(noun)s.") % what


def _borrowing(row: QuotaRow, loans: Sequence[LoanRow]) -> list[str]:
    parts = []
    if row.borrowed:
        lenders = [(loan.lender, loan.amount) for loan in loans if loan.borrower == row.queue]
        text = _("%(amount)s of these are borrowed from cohort %(cohort)s.")
        named = _("%(amount)s of these are borrowed from %(names)s.")
        parts.append(_with_parties(row, row.borrowed, lenders, text=text, named=named))
    if row.lent:
        own = [loan for loan in loans if (loan.lender_kind, loan.lender) == (row.kind, row.queue)]
        borrowers = [(loan.borrower, loan.amount) for loan in own]
        text = _("%(amount)s of its own are lent to others in cohort %(cohort)s.")
        named = _("%(amount)s of its own are lent to %(names)s.")
        parts.append(_with_parties(row, row.lent, borrowers, text=text, named=named))
    return parts


def _with_parties(
    row: QuotaRow, total: Decimal, parties: list[tuple[str, Decimal]], *, text: str, named: str
) -> str:
    """Names where there are few; where there are several, each with its part."""
    amount = _text(row, total)
    if not 0 < len(parties) <= NAMED_PARTIES:
        return text % {"amount": amount, "cohort": row.cohort}
    if len(parties) == 1 and parties[0][1] == total:
        return named % {"amount": amount, "names": parties[0][0]}
    parts = [_("%(name)s (%(n)s)") % {"name": name, "n": _text(row, part)} for name, part in parties]
    return named % {"amount": amount, "names": listed(parts)}


def _growth(row: QuotaRow) -> list[str]:
    if row.over:
        return [
            _("It is over its ceiling by %(amount)s; nothing is evicted for that.")
            % {"amount": _text(row, row.over)}
        ]
    if not row.listed or row.ceiling is None:
        return [_("It has no upper limit.")] if row.listed and row.system == "volcano" else []
    if row.ceiling > max(row.nominal or Decimal(0), row.reserved):
        return [
            _("May grow to %(ceiling)s while others leave them idle.") % {"ceiling": _text(row, row.ceiling)}
        ]
    if row.ceiling <= row.reserved:
        return [_("It is at its ceiling.")] if row.reserved else []
    return []


def _waiting(row: QuotaRow) -> list[str]:
    if not row.waiting:
        return []
    text = ngettext(
        "%(count)d job waits for %(amount)s more.", "%(count)d jobs wait for %(amount)s more.", row.waiting
    )
    return [text % {"count": row.waiting, "amount": _text(row, row.pending)}]


def _state(row: QuotaRow) -> list[str]:
    if row.stopped:
        return [_("The queue is stopped: it admits nothing new.")]
    if not row.active:
        return [_("The queue admits nothing new: %(message)s") % {"message": row.message or row.reason}]
    return []


def asides(row: QuotaRow) -> list[str]:
    """What the sentence leaves out and a reader may still want to know: guarantees, limits, differences, notes."""
    found = []
    if row.guaranteed:
        found.append(_("%(n)s are guaranteed: never lent") % {"n": _text(row, row.guaranteed)})
    if row.guarantee is not None:
        found.append(_("guarantee %(n)s") % {"n": _text(row, row.guarantee)})
    if row.real_capability is not None:
        found.append(_("real capability %(n)s") % {"n": _text(row, row.real_capability)})
    if row.inqueue:
        word = _("%(n)s reserved, not running yet")
        found.append(word % {"n": _text(row, row.inqueue)})
    if row.mismatch and row.status_reserved is not None:
        found.append(_("the queue's own status says %(n)s") % {"n": _text(row, row.status_reserved)})
    return [*found, *row.notes]
