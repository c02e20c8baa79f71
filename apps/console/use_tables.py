"""How busy what a team held was, beside what it is charged. Input: `Used` of a period; output: a table (the CSV has plain
seconds) and the sentences that say how far it can be relied on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.chargeback.team_use import Used
from apps.core.formats import number_text, quantities_text, resource_text
from apps.core.gpu import mode_label
from apps.core.tables import NumberColumn, PortalTable, RatioColumn, TextColumn

SECONDS_PER_HOUR = 3600
JOULES_PER_KWH = 3_600_000
NOT_MEASURED = _("not measured")


def unit_words(resource: str, sharing_mode: str, profile: str) -> str:
    """What one unit is: "GPU", "1g.10gb, MIG partition"."""
    parts = [profile or resource_text(resource)]
    if sharing_mode:
        parts.append(mode_label(sharing_mode))
    return ", ".join(parts)


class HoursColumn(NumberColumn):
    """Seconds shown as hours; the CSV keeps the seconds."""

    def __init__(self, *args: Any, of: int = SECONDS_PER_HOUR, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.of = of

    def render(self, value: Any) -> str | SafeString:
        return super().render(None if value is None else Decimal(value) / self.of)


class UsedTable(PortalTable):
    """Per kind of unit: what was reserved, what pods had of it, and what of that was measured and busy."""

    caption = _("Held and used")
    file_name = "statement-use"

    model = TextColumn(verbose_name=_("Model"), accessor="unit__model", classes="name")
    what = TextColumn(verbose_name=_("Unit"), empty_values=(), orderable=False)
    reserved = HoursColumn(verbose_name=_("Reserved"))
    bound = HoursColumn(verbose_name=_("Bound to pods"))
    unbound = HoursColumn(verbose_name=_("Reserved, no pod"), hide_small=True)
    measured = HoursColumn(verbose_name=_("Measured"), absent="–", hide_small=True)
    busy = HoursColumn(verbose_name=_("Busy"), absent="–", hide_small=True)
    held_idle = HoursColumn(verbose_name=_("Held idle"), absent=NOT_MEASURED)
    efficiency = RatioColumn(verbose_name=_("Efficiency"), absent="–")
    memory = HoursColumn(
        verbose_name=_("Memory, GiB-hours"),
        accessor="memory_gib_seconds",
        absent="–",
        hide_small=True,
    )
    energy = HoursColumn(
        verbose_name=_("Energy, kWh"),
        accessor="energy_joules",
        of=JOULES_PER_KWH,
        absent="–",
        hide_small=True,
    )
    resource = TextColumn(verbose_name=_("Resource"), visible=False)
    bridged = HoursColumn(verbose_name=_("Bridged"), visible=False)
    left_out = HoursColumn(verbose_name=_("Left out"), visible=False)

    class Meta(PortalTable.Meta):
        empty_text = _("The team held nothing in this period.")

    def render_model(self, record: Used) -> str:
        return record.unit.model or str(_("model not known"))

    def value_model(self, record: Used) -> str:
        return record.unit.model

    def render_what(self, record: Used) -> str:
        return unit_words(record.resource, record.unit.sharing_mode, record.unit.profile)

    def value_what(self, record: Used) -> str:
        return record.unit.profile or record.resource


def coverage_notes(used: Sequence[Used]) -> list[str]:
    """What the figures leave out, in sentences; of all kinds, listed and never added up."""
    bridged = _hours((one.resource, one.bridged) for one in used)
    left_out = _hours((one.resource, one.left_out) for one in used)
    unmeasured = _hours((one.resource, one.bound) for one in used if one.measured is None)
    notes = []
    if bridged:
        text = gettext(
            "In %(hours)s unit-hours the portal could not look; the same work was there before and after, and they count."
        )
        notes.append(text % {"hours": bridged})
    if left_out:
        text = gettext("%(hours)s unit-hours were seen by nobody; they are left out and not charged.")
        notes.append(text % {"hours": left_out})
    if unmeasured:
        text = gettext("Of %(hours)s unit-hours of pods no utilisation was measured.")
        notes.append(text % {"hours": unmeasured})
    notes += [text for one in used if (text := _measured_note(one))]
    return notes


def _measured_note(one: Used) -> str:
    if one.measured is None or not one.bound:
        return ""
    text = gettext("%(model)s: utilisation of %(measured)s device-hours beside %(bound)s unit-hours of pods.")
    return text % {
        "model": one.unit.model or gettext("model not known"),
        "measured": number_text(one.measured / SECONDS_PER_HOUR),
        "bound": number_text(one.bound / SECONDS_PER_HOUR),
    }


def _hours(found: Iterable[tuple[str, Decimal]]) -> str:
    sums: dict[str, Decimal] = {}
    for resource, seconds in found:
        if seconds:
            sums[resource] = sums.get(resource, Decimal(0)) + seconds / SECONDS_PER_HOUR
    return quantities_text(sums) if sums else ""
