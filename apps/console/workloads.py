"""`/workloads/<uid>/`: one piece of work, why it waits, its life so far. 404 unless its team is visible."""

from __future__ import annotations

from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponseBase

from apps.accounts.models import Team
from apps.admissions.labels import next_step, verdict_sentence
from apps.admissions.pending import Surroundings
from apps.admissions.work import asked_devices, held_devices, queue_of
from apps.console.access import owner_or_404
from apps.console.frame import WORK, Page
from apps.console.lifeline import lanes_of
from apps.console.links import queue_url
from apps.observations.models import Event, Pod, StateSpan, Workload

EVENTS_SHOWN = 50
PODS_SHOWN = 50


def workload(request: HttpRequest, uid: str) -> HttpResponseBase:
    page = Page.open(request, sources=WORK)
    found = Workload.objects.filter(uid=uid).select_related("cluster").order_by("-observed_at").first()
    if found is None:
        raise Http404
    queue = queue_of(found)
    team_id = owner_or_404(workload=found, queue=queue, team_ids=page.team_ids, at=page.now)
    spans = list(StateSpan.objects.filter(cluster=found.cluster_id, uid=uid).order_by("started_at", "id"))
    kind = "VolcanoQueue" if found.kind == Workload.Kind.POD_GROUP else "ClusterQueue"
    context = {
        "work": found,
        "queue": queue,
        "queue_url": queue_url(found.cluster.slug, kind, queue) if queue else "",
        "team": Team.objects.filter(pk=team_id).first() if team_id else None,
        "asked": asked_devices(found.requests),
        "held": held_devices(found.usage),
        "lanes": lanes_of(spans, now=page.now),
        "spans": spans[::-1],
        "events": _events(found)[:EVENTS_SHOWN],
        "pods": _pods(found)[:PODS_SHOWN],
        **_verdict(found, queue, page),
    }
    return page.render("console/workload.html", context, section="admissions")


def _verdict(work: Workload, queue: str, page: Page) -> dict[str, object]:
    """Why it waits, or nothing when it does not. A waiting list's row knows Volcano's events, too."""
    if work.gone_at is not None or work.state not in (
        Workload.State.PENDING,
        Workload.State.RESERVED,
        Workload.State.DEACTIVATED,
    ):
        return {}
    message, reason, checks = work.message, work.reason, work.checks
    if work.kind == Workload.Kind.POD_GROUP and not message:
        event = (
            Event.objects.filter(cluster=work.cluster_id, object_uid=work.uid, reason="Unschedulable")
            .order_by("-created_at")
            .first()
        )
        message, reason = (event.message, event.reason) if event is not None else (message, reason)
    verdict = Surroundings([work.cluster_id]).verdict(
        cluster_id=work.cluster_id,
        queue=queue,
        state=work.state,
        reason=reason,
        message=message,
        checks=checks,
    )
    return {
        "verdict": verdict,
        "sentence": verdict_sentence(verdict),
        "help": next_step(verdict),
        "message": message,
        "reason": reason,
    }


def _events(work: Workload) -> list[Event]:
    about = (
        Q(object_uid=work.uid) | Q(object_uid=work.owner_uid) if work.owner_uid else Q(object_uid=work.uid)
    )
    since = work.created_at or work.first_seen_at
    found = Event.objects.filter(cluster=work.cluster_id, namespace=work.namespace, created_at__gte=since)
    return list(found.filter(about).order_by("-created_at", "-id")[:EVENTS_SHOWN])


def _pods(work: Workload) -> list[Pod]:
    holding = Q(devices__gt=0) | ~Q(claims=[])
    pods = Pod.objects.filter(holding, cluster=work.cluster_id, namespace=work.namespace)
    belongs = Q(pod_group=work.name)
    if work.owner_uid:
        belongs |= Q(owner_uid=work.owner_uid)
    return list(pods.filter(belongs).order_by("name", "id")[:PODS_SHOWN])
