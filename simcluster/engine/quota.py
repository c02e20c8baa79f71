"""ClusterQueues, cohorts and flavors with the quota tree over them, and the search for a flavor and for victims.

All quota numbers come from `apps.quotas.tree.QuotaTree`; nothing here adds up or compares quota in another way.
Invariants: what a job holds is added to the tree once and taken off once; a search for victims leaves the tree as it
was.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from apps.quotas.tree import QuotaNode, QuotaTree

from .amounts import amount_text
from .fleet import Fleet
from .kueue_objects import cells, negated
from .model import Held, Job, Obj, Phase

FlavorResource = tuple[str, str]
WHY = {
    "InClusterQueue": "prioritization in the ClusterQueue",
    "InCohortReclamation": "reclamation within the cohort",
}


@dataclass(slots=True)
class Queue:
    """A ClusterQueue: its object, and the work in it."""

    name: str
    obj: Obj
    pending: dict[int, Job] = field(default_factory=dict)
    holding: dict[int, Job] = field(default_factory=dict)

    @property
    def spec(self) -> Obj:
        found: Obj = self.obj["spec"]
        return found

    @property
    def strict(self) -> bool:
        return bool(self.spec.get("queueingStrategy") == "StrictFIFO")

    @property
    def stopped(self) -> bool:
        return bool(self.spec.get("stopPolicy", "None") != "None")

    @property
    def checks(self) -> list[str]:
        strategy = self.spec.get("admissionChecksStrategy") or {}
        return [check["name"] for check in strategy.get("admissionChecks", ())]


@dataclass(slots=True)
class Verdict:
    """What trying to admit came to: a flavor per resource, or why not, and where preemption may help."""

    flavors: dict[str, str] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    preempt: FlavorResource | None = None


class Quota:
    """The quota side of Kueue."""

    def __init__(self, fleet: Fleet, objects: dict[str, list[Obj]]) -> None:
        self.fleet = fleet
        self.flavors = {obj["metadata"]["name"]: obj for obj in objects["ResourceFlavor"]}
        self.cohorts = {obj["metadata"]["name"]: obj for obj in objects["Cohort"]}
        named = ((obj["metadata"]["name"], obj) for obj in objects["ClusterQueue"])
        self.queues = {name: Queue(name, obj) for name, obj in named}
        self.tree = self._tree()

    def rebuild(self) -> None:
        """After an edit of a spec."""
        self.tree = self._tree()

    def _tree(self) -> QuotaTree:
        nodes = [
            QuotaNode(name, "Cohort", obj["spec"].get("parentName"), cells(obj["spec"]))
            for name, obj in self.cohorts.items()
        ]
        usage: dict[str, Held] = {}
        for name, queue in self.queues.items():
            parent = queue.spec.get("cohortName")
            nodes.append(QuotaNode(name, "ClusterQueue", parent, cells(queue.spec), stopped=queue.stopped))
            held = usage.setdefault(name, {})
            for job in queue.holding.values():
                for fr, amount in job.held.items():
                    held[fr] = held.get(fr, Decimal(0)) + amount
        return QuotaTree(nodes, usage)

    def inactive(self, queue: Queue) -> tuple[str, str] | None:
        """(reason, message) of a queue that admits nothing."""
        said, reason = [], ""
        if queue.stopped:
            said, reason = ["is stopped"], "Stopped"
        listed = [
            flavor["name"] for group in queue.spec.get("resourceGroups", ()) for flavor in group["flavors"]
        ]
        missing = sorted(name for name in listed if name not in self.flavors)
        if missing:
            said.append(f"references missing ResourceFlavor(s): {','.join(missing)}")
            reason = reason or "FlavorNotFound"
        return (reason, f"Can't admit new workloads: {', '.join(said)}.") if said else None

    def path(self, queue: str) -> str:
        """/root/…/queue, as Kueue names who preempts whom."""
        names = [queue]
        kind: Literal["ClusterQueue", "Cohort"] = "ClusterQueue"
        while parent := self.tree.parent(kind, names[-1]):
            names.append(parent)
            kind = "Cohort"
        return "/" + "/".join(reversed(names))

    def waiting_order(self, queue: str) -> list[Job]:
        """The work that waits in a ClusterQueue, heads first: who made others give way, then more urgent, then queued
        earlier. Work whose LocalQueue is missing stands in no queue."""
        waiting = self.queues[queue].pending.values()
        return sorted(waiting, key=lambda job: (not job.wanted, -job.priority, job.queued, job.number))

    def hold(self, job: Job, flavors: dict[str, str]) -> None:
        """Give a job its quota."""
        queue = self.queues[job.queue]
        job.flavors = flavors
        job.held = {(flavors[r], r): Decimal(n) for r, n in job.totals.items()}
        self.tree.add_usage(queue.name, job.held)
        del queue.pending[job.number]
        queue.holding[job.number] = job

    def unhold(self, job: Job) -> None:
        """Take it back."""
        self.tree.add_usage(job.queue, negated(job.held))
        job.held = {}
        self.queues[job.queue].holding.pop(job.number, None)

    # ---- a flavor for each resource -----------------------------------------------------------------------
    def assign(self, job: Job) -> Verdict:
        """The first flavor of each resource group in which everything of the group fits."""
        verdict = Verdict()
        covered: set[str] = set()
        for group in self.queues[job.queue].spec.get("resourceGroups", ()):
            wanted = [r for r in group["coveredResources"] if r in job.totals]
            covered.update(wanted)
            for flavor in group["flavors"] if wanted else ():
                reasons = self._reasons(job, flavor["name"], wanted, group, verdict)
                if not reasons:
                    verdict.flavors.update(dict.fromkeys(wanted, flavor["name"]))
                    break
                verdict.reasons += reasons
        missing = [r for r in job.totals if r not in covered]
        if missing:
            verdict.reasons = [f"resource {r} unavailable in ClusterQueue" for r in missing]
            verdict.preempt = None
        return verdict

    def _reasons(self, job: Job, flavor: str, wanted: list[str], group: Obj, verdict: Verdict) -> list[str]:
        """Why a flavor does not do, [] when it does."""
        spec = self.flavors[flavor]["spec"]
        for taint in spec.get("nodeTaints", ()):
            if taint["key"] not in job.stream.tolerated:
                said = f"{taint['key']} {taint.get('value', '')} {taint['effect']} <nil>"
                return [f"untolerated taint {{{said}}} in flavor {flavor}"]
        labels = spec.get("nodeLabels", {})
        known = {k for f in group["flavors"] for k in self.flavors[f["name"]]["spec"].get("nodeLabels", {})}
        if any(k in known and labels.get(k) != v for k, v in job.stream.selector.items()):
            return [f"flavor {flavor} doesn't match node affinity"]
        reasons, never, short = [], False, None
        for resource in wanted:
            reason, too_big = self._shortage(job, flavor, resource)
            if reason:
                reasons.append(reason)
                never = never or too_big
                short = short or (flavor, resource)
        if not reasons and spec.get("topologyName"):
            return self._topology_reasons(job, flavor)
        if reasons and not never and verdict.preempt is None:
            verdict.preempt = short
        return reasons

    def _shortage(self, job: Job, flavor: str, resource: str) -> tuple[str, bool]:
        """("", False) when the quota is there; else Kueue's words, and whether it can never be."""
        fr, asked = (flavor, resource), Decimal(job.totals[resource])
        most = self.tree.potential_available("ClusterQueue", job.queue, fr)
        if asked > most:
            words = (
                f"insufficient quota for {resource} in flavor {flavor}, previously considered podsets requests "
                f"(0) + current podset request ({amount_text(resource, job.totals[resource])}) > maximum "
                f"capacity ({amount_text(resource, int(most))})"
            )
            return words, True
        short = asked - self.tree.available("ClusterQueue", job.queue, fr)
        if short <= 0:
            return "", False
        more = amount_text(resource, int(min(short, asked)))
        return f"insufficient unused quota for {resource} in flavor {flavor}, {more} more needed", False

    def _topology_reasons(self, job: Job, flavor: str) -> list[str]:
        """The pods have to fit into one domain of the level that is asked for."""
        spec, level = self.flavors[flavor]["spec"], job.stream.topology
        domains: dict[str, int] = {}
        for node in self.fleet.matching(spec["nodeLabels"], job.stream.resource):
            if node.takes(job.stream):
                domain = node.labels.get(level, "")
                domains[domain] = domains.get(domain, 0) + len(node.free[job.stream.resource]) // job.gpus
        most = max(domains.values(), default=0)
        if most >= job.pods:
            return []
        topology = f'topology "{spec["topologyName"]}"'
        if most == 0:
            return [f"{topology} doesn't allow to fit any of {job.pods} pod(s)"]
        return [f"{topology} allows to fit only {most} out of {job.pods} pod(s)"]

    # ---- victims ------------------------------------------------------------------------------------------
    def victims(self, job: Job, fr: FlavorResource, wanted: Held) -> list[tuple[Job, str]]:
        """The least work that has to give way so that this can be admitted; [] when none helps."""
        cell = self.tree.cell("ClusterQueue", job.queue, fr)
        used = self.tree.usage("ClusterQueue", job.queue, fr)
        within = cell is not None and used + wanted[fr] <= cell.nominal
        chosen: list[tuple[Job, str]] = []
        enough = False
        for victim, why in self._candidates(job, fr, reclaim=within):
            chosen.append((victim, why))
            self.tree.add_usage(victim.queue, negated(victim.held))
            enough = all(
                n <= self.tree.available("ClusterQueue", job.queue, one) for one, n in wanted.items()
            )
            if enough:
                break
        for victim, _why in chosen:
            self.tree.add_usage(victim.queue, victim.held)
        return chosen if enough else []

    def _candidates(self, job: Job, fr: FlavorResource, *, reclaim: bool) -> list[tuple[Job, str]]:
        """Borrowers of the cohort (when reclaiming), then less urgent work of the own queue."""
        mine = self.queues[job.queue]
        policy = mine.spec.get("preemption") or {}
        within, cohort = policy.get("withinClusterQueue", "Never"), policy.get("reclaimWithinCohort", "Never")
        found: list[tuple[Job, str]] = []
        if within != "Never":
            found += [(victim, "InClusterQueue") for victim in self._lower(mine, job, fr)]
        root = self.tree.root_of("ClusterQueue", job.queue)
        for other in self.queues.values() if reclaim and cohort != "Never" else ():
            same = other is not mine and self.tree.root_of("ClusterQueue", other.name) == root
            if same and self.tree.borrowed("ClusterQueue", other.name, fr):
                below = None if cohort == "Any" else job
                found += [(victim, "InCohortReclamation") for victim in self._lower(other, below, fr)]
        found.sort(key=lambda p: (p[1] == "InClusterQueue", p[0].priority, -p[0].started, -p[0].number))
        return found

    @staticmethod
    def _lower(queue: Queue, than: Job | None, fr: FlavorResource) -> list[Job]:
        return [
            victim
            for victim in queue.holding.values()
            if fr in victim.held
            and victim.phase not in (Phase.FINISHED, Phase.EVICTED)
            and (than is None or victim.priority < than.priority)
        ]
