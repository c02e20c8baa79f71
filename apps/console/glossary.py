"""`/glossary/`: one word per thing, in the reader's language beside the name that the clusters use."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase
from django.utils.translation import gettext_lazy as _

from apps.admissions.labels import CAUSE_LABELS, CAUSE_MEANINGS
from apps.console.frame import Page
from apps.console.weight_tables import WeightTable
from apps.core.gpu import MODE_LABELS, MODE_NOTES
from apps.core.tables import table_csv, wants_csv
from apps.fleet.weights import weight_rows

TERMS = (
    (
        "ClusterQueue",
        _("ClusterQueue"),
        _("Kueue's cluster-wide queue; it owns quota per flavor and may share it in a cohort."),
    ),
    ("LocalQueue", _("LocalQueue"), _("A namespace's door to one ClusterQueue; work names it.")),
    (
        "Cohort",
        _("cohort"),
        _("Queues that lend each other what they leave idle; cohorts may lie in cohorts."),
    ),
    (
        "ResourceFlavor",
        _("flavor"),
        _("A kind of node, chosen by labels: quota is given per flavor and resource."),
    ),
    (
        "nominalQuota",
        _("nominal quota"),
        _("What a queue may always use; others may borrow it while it is idle."),
    ),
    (
        "borrowingLimit",
        _("borrow"),
        _("To use more than the nominal quota, out of what the cohort leaves idle."),
    ),
    ("lendingLimit", _("lend"), _("To let others of the cohort use what is idle, up to a limit.")),
    ("ceiling", _("ceiling"), _("The most a queue can ever hold: nominal quota and all it may borrow.")),
    (
        "QuotaReserved",
        _("quota reserved"),
        _("Quota is set aside for the work; it may still wait for checks."),
    ),
    ("Admitted", _("admission"), _("Quota is reserved and every check has passed: pods may start.")),
    ("capability", _("capability"), _("Volcano's upper limit of a queue.")),
    (
        "deserved",
        _("deserved"),
        _("Volcano's share of a queue that others may not keep when it is wanted back."),
    ),
    ("guarantee", _("guarantee"), _("What Volcano keeps free for a queue, used or not.")),
    ("PodGroup", _("PodGroup"), _("Volcano's unit of work: pods that start together or not at all.")),
    ("physical", _("physical"), _("The cards that exist, whether they can be used or not.")),
    (
        "allocatable",
        _("allocatable"),
        _("Physical minus everything out of use; each card is in exactly one group."),
    ),
    (
        "stranded",
        _("stranded"),
        _("Usable and not held, but its node has no CPU, memory or room for a pod left."),
    ),
    (
        "committed",
        _("committed"),
        _("The nominal quota that is promised on a pool; may exceed what is usable."),
    ),
    (
        "allocation ratio",
        _("allocation ratio"),
        _("Nominal quota divided by what is allocatable; above 100 % more is promised than usable."),
    ),
    (
        "outlier",
        _("differs from most"),
        _("A node runs another version than most nodes of its model in the same cluster."),
    ),
    ("pool", _("pool"), _("The cards of one model and one sharing mode in one cluster.")),
    (
        "topology",
        _("topology"),
        _("Which nodes are close together: racks and blocks, by Kueue's Topology or Volcano's HyperNodes."),
    ),
    (
        "fragmentation",
        _("fragmentation"),
        _("The share of free cards on nodes that are not wholly free: no job of a whole node can take them."),
    ),
    ("exclusive", _("whole cards"), _("One unit is one card.")),
    ("MIG", _("MIG instance"), _("A hardware slice of a card with its own memory.")),
    (
        "time-slicing",
        _("time slice"),
        _("Several containers take turns on one card: its memory is not isolated."),
    ),
    ("MPS", _("MPS client"), _("Several processes share one card at the same time, each with a limit.")),
    (
        "GPU-equivalent",
        _("GPU-equivalent"),
        _("A slice or instance as a share of a whole card, to add up unlike units."),
    ),
    ("framebuffer", _("framebuffer"), _("The memory on the card.")),
    ("wait", _("wait"), _("From entering the queue until quota is reserved.")),
)
STATES = (
    ("0", _("Zero"), _("It was counted, and there is none.")),
    ("", _("Not collected"), _("Nobody has told us; it may be any number.")),
    ("stale", _("Old"), _("The number was right when it was read; its age stands beside it.")),
    ("partial", _("Partial"), _("Something is left out, and the page says what.")),
)


def glossary(request: HttpRequest) -> HttpResponseBase:
    page = Page.open(request, sources=())
    weights = WeightTable(weight_rows(), prefix="w-")
    if wants_csv(request, "weights"):
        return table_csv(weights, request)
    context = {
        "terms": TERMS,
        "causes": [(key, label, CAUSE_MEANINGS[key]) for key, label in CAUSE_LABELS.items()],
        "states": STATES,
        "modes": [(label, MODE_NOTES[mode]) for mode, label in MODE_LABELS.items()],
        "weights": page.prepare(weights, per_page=200),
    }
    return page.render("console/glossary.html", context)
