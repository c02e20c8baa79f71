"""What Kueue 0.17 says of work that waits, without granular reasons. Input: the engine's verdict in numbers and the job;
output: Kueue's own words. Pure."""

from __future__ import annotations

from apps.quotas.engine.model import Pending, Reason, WhyPreempted

from .amounts import amount_text
from .model import Job
from .situation import POD_SET

WHY: dict[WhyPreempted, str] = {
    "InClusterQueue": "prioritization in the ClusterQueue",
    "InCohortReclamation": "reclamation within the cohort",
    "InCohortReclaimWhileBorrowing": "reclamation within the cohort while borrowing",
    "InCohortFairSharing": "Fair Sharing within the cohort",
}
_SKIPPED = {
    "no_longer_fits": "Workload no longer fits after processing another workload",
    "overlapping_victims": "Workload has overlapping preemption targets with another workload",
}


def pending_words(said: Pending, job: Job, topologies: dict[str, str]) -> str:
    """`topologies`: of each flavor. "" when there is nothing to say."""
    if said.skipped:
        return _SKIPPED[said.skipped]
    if not said.reasons:
        return ""
    missing = [reason for reason in said.reasons if reason.code == "ResourceNotCovered"]
    words = sorted({_reason(reason, job, topologies) for reason in missing or said.reasons})
    text = f"couldn't assign flavors to pod set {POD_SET}: {', '.join(words)}"
    return f"{text}. Pending the preemption of {said.victims} workload(s)" if said.victims else text


def _reason(reason: Reason, job: Job, topologies: dict[str, str]) -> str:
    flavor, resource = reason.flavor, reason.resource
    match reason.code:
        case "ResourceNotCovered":
            return f"resource {resource} unavailable in ClusterQueue"
        case "NoPlacement":
            topology = f'topology "{topologies.get(flavor, "")}"'
            if not reason.most:
                return f"{topology} doesn't allow to fit any of {job.pods} pod(s)"
            return f"{topology} allows to fit only {int(reason.most)} out of {job.pods} pod(s)"
        case "NoMatchingFlavor":
            return _no_match(reason, topologies)
        case "ExceedsMaxQuota":
            asked, most = job.totals.get(resource, job.pods), int(reason.most or 0)
            return (
                f"insufficient quota for {resource} in flavor {flavor}, previously considered podsets requests "
                f"(0) + current podset request ({amount_text(resource, asked)}) > maximum "
                f"capacity ({amount_text(resource, most)})"
            )
        case _:
            more = amount_text(resource, int(reason.more or 0))
            return f"insufficient unused quota for {resource} in flavor {flavor}, {more} more needed"


def _no_match(reason: Reason, topologies: dict[str, str]) -> str:
    if reason.taint is not None:
        return f"untolerated taint {{{' '.join(reason.taint)} <nil>}} in flavor {reason.flavor}"
    if reason.flavor not in topologies:
        return f"flavor {reason.flavor} not found"
    return f"flavor {reason.flavor} doesn't match node affinity"
