"""Words of the software stack. Input: component and source names; output: text in the active language."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.capacity.stack import OPERATOR

COMPONENT_LABELS: dict[str, Promise] = {
    "driver": _("Driver"),
    "cuda": _("CUDA of the driver"),
    "kernel": _("Kernel"),
    "os": _("Operating system"),
    "runtime": _("Container runtime"),
    "kubelet": _("Kubelet"),
    "architecture": _("Architecture"),
}
SOURCE_LABELS: dict[str, Promise] = {
    "label": _("node label"),
    "node": _("node status"),
    "dra": _("device object"),
    "telemetry": _("exporter"),
    "operator": _("operator policy"),
}


def component_label(component: str) -> str:
    """Also of an operator's component: "Operator: toolkit"."""
    if component.startswith(OPERATOR):
        return gettext("Operator: %(name)s") % {"name": component.removeprefix(OPERATOR)}
    return str(COMPONENT_LABELS.get(component, component))


def source_label(source: str) -> str:
    return str(SOURCE_LABELS.get(source, source))
