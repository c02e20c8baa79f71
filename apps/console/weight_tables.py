"""The published weight table: columns of the glossary's table and its CSV."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from apps.core.tables import NumberColumn, PortalTable, TextColumn
from apps.fleet.weights import WeightRow


class WeightTable(PortalTable):
    """Weights stay fractions: a rounded one could not be added up again."""

    caption = _("What one partition of a card counts as")
    file_name = "gpu-weights"

    vendor = TextColumn(accessor="vendor_name", verbose_name=_("Vendor"))
    model = TextColumn(verbose_name=_("Model"), default=_("any"))
    profile = TextColumn(verbose_name=_("Profile"), classes="mono nowrap")
    per_card = NumberColumn(verbose_name=_("Most on one card"))
    compute_slices = NumberColumn(verbose_name=_("Compute slices"))
    card_compute_slices = NumberColumn(verbose_name=_("Compute slices of the card"), hide_small=True)
    memory_slices = NumberColumn(verbose_name=_("Memory slices"), absent=_("not fixed"))
    card_memory_slices = NumberColumn(
        verbose_name=_("Memory slices of the card"), absent=_("not fixed"), hide_small=True
    )

    def value_vendor(self, record: WeightRow) -> str:
        return record.vendor

    class Meta(PortalTable.Meta):
        sequence = ("vendor", "model", "profile", "...")
