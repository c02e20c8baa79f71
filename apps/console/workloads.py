"""`/workloads/<uid>/`: one piece of work, why it does not run, its life so far. 404 unless its team is visible."""

from __future__ import annotations

from django.db.models import F, Q
from django.http import Http404, HttpRequest, HttpResponseBase
from django.utils.translation import gettext_lazy as _

from apps.admissions.estimate_words import estimate_text
from apps.admissions.explanation import Subject
from apps.admissions.labels import cause_label, layer_label
from apps.admissions.life import PLACED, Stretch
from apps.admissions.life_selectors import pods_of
from apps.admissions.life_words import evidence_label, phase_label
from apps.admissions.queued import Standing
from apps.admissions.work import asked_devices, held_devices
from apps.console.frame import WORK, Page
from apps.console.lifeline import lanes_of, ticks_of
from apps.console.links import queue_url, with_query
from apps.core.tables import DurationColumn, PortalTable, TextColumn, TimeColumn, table_csv, wants_csv
from apps.findings.selectors import Finding, findings_about_work
from apps.observations.models import Event, Pod, Workload
from apps.quotas.standing_words import lack_text
from apps.usage.explained import explained

EVENTS_SHOWN = 50
PODS_SHOWN = 50


class StretchTable(PortalTable):
    """For the CSV: the page draws the same rows with their texts beside them."""

    caption = _("Life so far")
    file_name = "life"

    started_at = TimeColumn(verbose_name=_("From"))
    ended_at = TimeColumn(verbose_name=_("To"))
    seconds = DurationColumn(verbose_name=_("Length"))
    phase = TextColumn(verbose_name=_("Phase"))
    attempt = TextColumn(verbose_name=_("Attempt"))
    layer = TextColumn(verbose_name=_("Layer"))
    cause = TextColumn(verbose_name=_("Cause"))
    rule = TextColumn(verbose_name=_("Rule"))
    reason = TextColumn(verbose_name=_("Reason"))
    message = TextColumn(verbose_name=_("Message"))
    evidence = TextColumn(verbose_name=_("Source"))

    def render_phase(self, value: str) -> str:
        return phase_label(value)

    def render_layer(self, value: str) -> str:
        return layer_label(value)

    def render_cause(self, value: str) -> str:
        return cause_label(value)

    def render_evidence(self, value: str) -> str:
        return evidence_label(value)


def _row(number: int, stretch: Stretch) -> dict[str, object]:
    return {
        "number": number,
        "stretch": stretch,
        "phase": phase_label(stretch.phase),
        "attempt": stretch.attempt if stretch.phase in PLACED else 0,
        "source": evidence_label(stretch.evidence),
    }


def workload(request: HttpRequest, uid: str) -> HttpResponseBase:
    page = Page.open(request, sources=WORK)
    found = explained(uid=uid, now=page.now, team_ids=page.team_ids)
    if found is None:
        raise Http404
    if wants_csv(request):
        return table_csv(StretchTable(list(found.life.stretches)), request)
    subject, work = found.subject, found.subject.work
    kind = "VolcanoQueue" if subject.kind == Workload.Kind.POD_GROUP else "ClusterQueue"
    stretches = found.life.stretches
    context = {
        "found": found,
        "subject": subject,
        "work": work,
        "pod": subject.pod,
        "team": subject.team,
        "queue": subject.queue,
        "queue_url": queue_url(subject.cluster.slug, kind, subject.queue) if subject.queue else "",
        "asked": asked_devices(work.requests if work else subject.pod.requests if subject.pod else {}),
        "held": held_devices(work.usage) if work else {},
        "gone_at": work.gone_at if work else subject.pod.gone_at if subject.pod else None,
        "lanes": lanes_of(stretches),
        "ticks": ticks_of(stretches),
        "rows": [_row(number, each) for number, each in enumerate(stretches, start=1)][::-1],
        "phase": phase_label(found.stretch.phase) if found.stretch else "",
        "estimate": estimate_text(found.estimate) if found.estimate else "",
        "lacks": _lacks(found.standing),
        "findings": _findings(subject, page),
        "events": _events(subject),
        "pods": _pods(work) if work else [subject.pod],
        "csv_url": with_query(request, format="csv"),
    }
    return page.render("console/workload.html", context, section="admissions")


def _findings(subject: Subject, page: Page) -> list[tuple[Finding, str]]:
    """What goes wrong with it between layers; it leads nowhere else."""
    if subject.work is None or subject.work.gone_at is not None:
        return []
    found = findings_about_work(
        now=page.now, cluster=subject.cluster, uid=subject.uid, team_ids=page.team_ids
    )
    return [(one, "") for one in found]


def _lacks(standing: Standing) -> str:
    """What it lacks and what else keeps it waiting; "" where nothing is known of it or it does not wait."""
    if standing.lacking is None and not standing.blocked:
        return ""
    return lack_text(standing.lacking, standing.blocked)


def _events(subject: Subject) -> list[Event]:
    about = Q(object_uid=subject.uid)
    thing = subject.work or subject.pod
    if thing is None:
        return []
    if subject.work is not None and subject.work.owner_uid:
        about |= Q(object_uid=subject.work.owner_uid)
    since = thing.created_at or thing.first_seen_at
    found = Event.objects.filter(cluster=subject.cluster, namespace=subject.namespace, created_at__gte=since)
    return list(found.filter(about).order_by("-created_at", "-id")[:EVENTS_SHOWN])


def _pods(work: Workload) -> list[Pod]:
    """Those that are there before those that were removed: the page has room for some."""
    return list(pods_of(work).order_by(F("gone_at").desc(nulls_first=True), "name", "id")[:PODS_SHOWN])
