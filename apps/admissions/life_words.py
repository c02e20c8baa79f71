"""Words for the phases of a life and for where a reason was read. Input: ids of `LIFE`; output: translated text."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

PHASE_LABELS: dict[str, Promise] = {
    "gated": _("gated"),
    "queued": _("queued"),
    "backoff": _("pause before the next try"),
    "held": _("held"),
    "reserved": _("admission checks"),
    "provisioning": _("nodes are made"),
    "unplaced": _("admitted, not placed"),
    "starting": _("starting"),
    "running": _("running"),
    "evicted": _("being evicted"),
    "finished": _("finished"),
}

PHASE_SENTENCES: dict[str, Promise] = {
    "gated": _("A gate keeps it from being considered"),
    "queued": _("It waits in its queue"),
    "backoff": _("It was sent back and is tried again later"),
    "held": _("It is held on purpose"),
    "reserved": _("It has its quota and waits for admission checks"),
    "provisioning": _("It has its quota, and nodes for it are being made"),
    "unplaced": _("No queue holds it back, but not all of its pods have a node"),
    "starting": _("Its pods have nodes and are starting"),
    "running": _("It runs"),
    "evicted": _("It is being evicted and gives its quota back"),
    "finished": _("It has ended"),
}

# What the reader can do where no text says why.
PHASE_STEPS: dict[str, Promise] = {
    "gated": _("Whoever set the gate has to lift it; its name stands in the object."),
    "queued": _("Nothing: the queue has not said anything about it yet."),
    "backoff": _("Nothing before the pause ends; then read why the last attempt failed."),
    "held": _("Ask whoever stopped the queue, or activate the work again."),
    "reserved": _("Wait, or ask the admin of the admission check."),
    "provisioning": _("Wait for the nodes; if none come, the autoscaler's events say why."),
    "unplaced": _(
        "Look at its pods: the scheduler says there what it lacks, or its owner why it makes none."
    ),
    "starting": _(
        "Wait; if it lasts, look at its pods: image, volumes and containers say there what they lack."
    ),
    "evicted": _("Nothing: it is queued again once its pods are gone."),
}

EVIDENCE_LABELS: dict[str, Promise] = {
    "condition": _("condition of the workload"),
    "check": _("admission check"),
    "event": _("event"),
    "pod": _("pod"),
    "": _("no text"),
}


def phase_label(phase: str) -> str:
    return str(PHASE_LABELS.get(phase, phase))


def evidence_label(evidence: str) -> str:
    return str(EVIDENCE_LABELS.get(evidence, evidence))
