"""Words for buckets and for what is odd about a node. Input: codes; output: text in the active language."""

from __future__ import annotations

import re

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.capacity.health import Bucket
from apps.core.formats import listed_apart

BUCKET_LABELS: dict[str, Promise] = {
    Bucket.LOST: _("lost"),
    Bucket.NODE_NOT_READY: _("node not ready"),
    Bucket.PLUGIN_DOWN: _("device plugin down"),
    Bucket.DEVICE_UNHEALTHY: _("device unhealthy"),
    Bucket.MAINTENANCE: _("maintenance"),
    Bucket.CORDONED: _("cordoned"),
    Bucket.TAINTED: _("tainted"),
    Bucket.BEING_REMOVED: _("being removed"),
    Bucket.UNINITIALISED: _("not initialised"),
    Bucket.PLATFORM_RESERVE: _("platform reserve"),
}
# How a node was bought, as its labels say (see data/nodes.yaml).
CAPACITY_TYPES: dict[str, Promise] = {
    "on-demand": _("on demand"),
    "reserved": _("reservation"),
    "spot": _("spot"),
}
CODE_TEXTS: dict[str, Promise] = {
    "no_model": _("No label names the model."),
    "labels_differ": _(
        "Labels and the device plugin disagree about the number of cards; the plugin is believed."
    ),
    "mixed_models": _("Cards of several models on one node; they are a pool of their own."),
    "stale_resource": _("An old resource stands beside its renamed one; only the renamed one is counted."),
    "unknown_profile": _("The weight table does not know this partition: its weight follows from its name."),
    "vm_workloads": _("The node's cards are handed to virtual machines: no container can have them."),
    "mig_invalid": _("The MIG geometry is invalid: the node offers nothing."),
    "allocatable_above_capacity": _("The node offers more than it has; the surplus is not counted."),
    "register_unreadable": _("The register of shared cards cannot be read; cards are estimated."),
    "dual_advertised": _(
        "The device plugin and a DRA driver offer the same cards; they are counted once, in the plugin's units."
    ),
    "dra_incomplete": _(
        "A DRA driver has not published all of its devices; the last complete list counts where one was seen."
    ),
    "present_without_devices": _("Labelled as a GPU node, but no device plugin offers anything."),
}
# What the pure modules say as evidence in words of their own; other evidence quotes the cluster and stays as it is.
EVIDENCE_TEXTS: dict[str, Promise] = {
    "no Ready condition": _("no Ready condition"),
    "no valid MIG geometry": _("no valid MIG geometry"),
    "the device plugin offers nothing": _("the device plugin offers nothing"),
    "the device plugin has offered nothing for too long": _(
        "the device plugin has offered nothing for too long"
    ),
    "the register says unhealthy": _("the register says unhealthy"),
}


def bucket_label(bucket: str) -> str:
    return str(BUCKET_LABELS.get(bucket, bucket))


def code_text(code: str) -> str:
    return str(CODE_TEXTS.get(code, code))


_UNITS_OFFERED = re.compile(r"([^\s,]+): ([\d.]+) of ([\d.]+)")
_KNOWN = re.compile(r"(\d+) known, (\d+) offered")
_ALL_OFFERED = re.compile(rf"{_UNITS_OFFERED.pattern}(?:, {_UNITS_OFFERED.pattern})*")


def evidence_text(evidence: str) -> str:
    if _ALL_OFFERED.fullmatch(evidence):
        return listed_apart(_offered(*found) for found in _UNITS_OFFERED.findall(evidence))
    if known := _KNOWN.fullmatch(evidence):
        words = {"known": known[1], "offered": known[2]}
        return gettext("%(known)s known, %(offered)s offered") % words
    return str(EVIDENCE_TEXTS.get(evidence, evidence))


def _offered(resource: str, offered: str, capacity: str) -> str:
    words = {"resource": resource, "offered": offered, "capacity": capacity}
    return gettext("%(offered)s of %(capacity)s %(resource)s offered") % words
