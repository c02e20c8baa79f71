"""Why a finding matters and what to change, by its code; where a code has several causes, by "code.cause".

Invariant: every code that a finding can have is here (tests/test_words.py goes through them); two short sentences."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.findings.rows import Finding

Words = tuple[Promise | str, Promise | str]

_SIGHT = _("What the portal shows of this cluster may be out of date or incomplete until this is repaired.")
_OUT = _("These cards are paid for, and no work can use them.")
_COUNT = _("Numbers of capacity may be too high, too low or counted twice.")
_NO_ADMISSION = _("Work sent to this queue waits for ever, and nobody is told.")
_LOST_WORK = _("Work sent there is never looked at.")

WORDS: dict[str, Words] = {
    "source-failed": (_SIGHT, _("Look at the source's page for the error and what to do about it.")),
    "source-stale": (_SIGHT, _("Check that the workers run and that the cluster answers.")),
    "source-partial": (_SIGHT, _("Look at the source's page for what could not be read.")),
    "quarantine": (
        _("These objects are missing in every number."),
        _("Look at the raw bytes on the page of sources and report them, or repair the objects."),
    ),
    "waiting-never": (
        _("This work never starts, however long it waits."),
        _("Ask for less per pod set, or raise the quota or the borrowing limit."),
    ),
    "waiting-mistakes": (
        _("This work never starts as it is configured."),
        _("Open the work, read the reason and correct what it names."),
    ),
    "waiting-unknown": (
        _("Nobody can say what this work waits for."),
        _("Read the raw message; tell the maintainers, so that a rule learns it."),
    ),
    "waiting-long": (
        _("Somebody waits for results, and quota may be in the wrong place."),
        _("See what the work lacks; move quota, lower the request, or wait for others to finish."),
    ),
    "queue-broken": (_NO_ADMISSION, _("Repair what the message names.")),
    "queue-stopped": (_NO_ADMISSION, _("Open the queue again, or tell its users where to go.")),
    "held_idle": (
        _("The cards are held, so nobody else can use them."),
        _("Ask the owner to end the work or to ask for fewer cards."),
    ),
    "memory_without_compute": (
        _("The cards hold memory and compute nothing; nobody else can use them."),
        _("Ask the owner whether the work hangs or serves nothing; end it if so."),
    ),
    "coverage-beyond": (_COUNT, _("Check that the device plugin runs on these nodes.")),
    "coverage-unseen": (
        _("Use of these cards is not measured."),
        _("Check that the exporter runs on these nodes and that Prometheus reads it."),
    ),
    "bucket": (_OUT, _("Repair the nodes or cards, or plan without them.")),
    # ---- between layers ------------------------------------------------------------------------------------------
    "no_node": (
        _("It holds quota that nobody else can use, and nothing runs."),
        _("See whether nodes of this kind can still be added; if not, end the work or lower the quota."),
    ),
    "partly_placed": (
        _("The placed pods hold cards and wait for the others, which may never come."),
        _("Make room for the rest, or end the work; let gangs be placed all at once or not at all."),
    ),
    "rejected": (
        _("Scheduler and node disagree about what is free, so that pods fail at once."),
        _("Look at the device plugin of the node; start the work again elsewhere."),
    ),
    "node_refuses": (
        _("Whatever is placed there next fails as well."),
        _("Cordon the node, restart its device plugin and kubelet, and check its cards."),
    ),
    "device_unregistered": (
        _("Work waits for these cards, and the autoscaler believes that they are there."),
        _("Check driver, device plugin and start-up taints on the nodes."),
    ),
    "other_model": (
        _("The quota of one kind of card is used up by work on another."),
        _("Give the flavor node labels that only its cards have, and let Kueue set them on the pods."),
    ),
    "no_pods": (
        _("It holds quota that nobody else can use, and nothing runs."),
        _("Look at the owner for why it makes no pods; end the work if it is not needed."),
    ),
    "ready_loop": (
        _("Each attempt takes quota and cards from others and comes to nothing."),
        _("Read why the pods do not become ready; correct that, or give them more time."),
    ),
    "preempted_again": (
        _("What ran is lost each time, and the work may never end."),
        _("Save results more often, raise the priority, or move the work to quota of its own."),
    ),
    # ---- notes of capacity -----------------------------------------------------------------------------------
    "pods_missing": (_SIGHT, _("Let the portal's account read pods.")),
    "mig_invalid": (_OUT, _("Set a valid MIG layout on the nodes.")),
    "present_without_devices": (_OUT, _("Check driver and device plugin on the nodes.")),
    "two_flavors": (
        _("The same cards are promised twice, so admitted work may not find any."),
        _("Give the flavors node labels that no node has together."),
    ),
    "labels_differ": (_COUNT, _("Correct the labels that say what cards the nodes have.")),
    "mixed_models": (_COUNT, _("Label each node with the one model it has, or split it by flavor.")),
    "no_model": (_COUNT, _("Label the nodes with their model, or run the vendor's feature discovery.")),
    "vm_workloads": (_("Cards for virtual machines cannot be used by pods."), _("Plan without these cards.")),
    "stale_resource": (_COUNT, _("Remove the left-over resource from the nodes.")),
    "unknown_profile": (_COUNT, _("Add the profile to the device registry.")),
    "register_unreadable": (_COUNT, _("Check the annotation that the device plugin writes.")),
    "unregistered": (
        _("Cards of this kind are in no number."),
        _("Add the resource to the device registry."),
    ),
    "dual_advertised": (_COUNT, _("Offer the cards either by device plugin or by DRA.")),
    "dra_incomplete": (_COUNT, _("Check the DRA driver on the nodes.")),
    "dra_unowned": (_COUNT, _("Add the driver to the device registry.")),
    "claim_without_pod": (
        _("The claim holds cards that no pod uses."),
        _("Delete the claim if nothing needs it any more."),
    ),
    "claim_orphan": (
        _("The claim holds cards of work that is gone."),
        _("Delete the claim if nothing needs it any more."),
    ),
    "shared_flavor": (
        _("Nobody can say on which cards this quota can be used."),
        _("Give each kind of card a flavor of its own."),
    ),
    "no_flavor": (
        _("No queue can give out these cards."),
        _("Give the nodes the labels of a flavor that has quota, or add a flavor."),
    ),
    "no_rdma": (_("Work on several of these nodes is slow."), _("Check the network cards and their labels.")),
    "spans_capacity_types": (
        _("A part of the work may be taken away at any time."),
        _("Keep the work on nodes of one kind."),
    ),
    "topology_missing": (
        _("Work that asks for this topology is not admitted."),
        _("Create the topology, or take its name out of the flavor."),
    ),
    "topology_labels": (
        _("Nodes without these labels are left out of placement."),
        _("Label the nodes with all levels of the topology."),
    ),
    "hypernode_empty": (
        _("Work is never placed there."),
        _("Correct the selector, or delete the hyper node."),
    ),
    "hypernode_pattern": (
        _("Nodes may be left out of placement."),
        _("Correct the selector of the hyper node."),
    ),
    # ---- quota -----------------------------------------------------------------------------------------------
    "nominal_over_allocatable": (
        _("Work is admitted and then finds no card: it holds quota while its pods wait."),
        _("Lower nominal quota to what the nodes offer, or add nodes."),
    ),
    "flavor_without_nodes": (
        _("Work that is admitted to this flavor is never placed."),
        _("Label nodes for the flavor, correct its node labels, or take it out of the queues."),
    ),
    "unit_mismatch": (
        _("Kueue adds up numbers that mean different things, so that much too much can be borrowed."),
        _("Write the quota of one resource in one unit, in cohorts of their own where units differ."),
    ),
    "lendable_unreachable": (
        _("The quota stands idle whenever its owner does not use it."),
        _("Let another queue of the cohort list the flavor and borrow, or move the quota."),
    ),
    "limit_never_binds": (
        _("The limit looks like a rule and has no effect."),
        _("Take the limit out, or set it to what was meant."),
    ),
    "local_queue_nowhere": (
        _LOST_WORK,
        _("Create the queue, or make a new local queue that leads to another."),
    ),
    "larger_than_ceiling": (
        _("This work never starts, however long it waits."),
        _("Ask for less per pod set, or raise the quota or the borrowing limit."),
    ),
    "volcano_children_over_parent": (
        _("What the queues below are promised cannot be given; some versions of Volcano stop scheduling."),
        _("Raise the parent first, or lower the queues below it."),
    ),
    "status_differs": (
        _("Either the queue's controller or the portal counts wrongly; the portal shows its own count."),
        _("Wait for the next pull. If it stays, look for flavors that the queue no longer lists."),
    ),
    "never_admits": (_NO_ADMISSION, _("Correct the queue, or delete it.")),
    "never_admits.cohort_cycle": (
        _("Kueue calls these queues ready and skips them; the quota in them is lost."),
        _("Give one of the cohorts another parent, or none."),
    ),
    "never_admits.flavor_missing": (_NO_ADMISSION, _("Create the flavor, or take it out of the queue.")),
    "never_admits.check_missing": (_NO_ADMISSION, _("Create the check, or take it out of the queue.")),
    "never_admits.check_inactive": (_NO_ADMISSION, _("Repair the check, or take it out of the queue.")),
    "never_admits.no_selector": (
        _NO_ADMISSION,
        _("Set a namespace selector; an empty one, {}, takes every namespace."),
    ),
    "never_admits.no_namespace": (_NO_ADMISSION, _("Correct the selector, or label the namespaces.")),
    "never_admits.stopped": (_NO_ADMISSION, _("Open the queue again, or tell its users where to go.")),
    "never_admits.stopped_parent": (_NO_ADMISSION, _("Open the queue above it.")),
    "never_admits.parent_missing": (_NO_ADMISSION, _("Create the parent, or name another.")),
    "never_admits.no_local_queue": (
        _("Its quota serves nobody but those who borrow it."),
        _("Create a local queue that leads to it, or give its quota to others."),
    ),
    "never_admits.zero_ceiling": (
        _NO_ADMISSION,
        _("Give it nominal quota, or let it borrow in a cohort that has some."),
    ),
}


def words(finding: Finding) -> tuple[str, str]:
    """(why, advice) in the active language."""
    cause = f"{finding.code}.{finding.key.rpartition('/')[2]}"
    found = WORDS.get(cause) or WORDS.get(finding.code)
    return (str(found[0]), str(found[1])) if found else ("", "")
