"""Why one piece of work is not running, and what can be done. Input: a uid and the reader; output: `Explanation`.

The same for a Kueue Workload, a Volcano PodGroup and a GPU pod that no queue knows; page and REST show it.
Invariant: work that the reader may not see is not found.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime

from apps.accounts.models import Team
from apps.admissions.blocks import block_of
from apps.admissions.classifier import Verdict, classify
from apps.admissions.estimates import Estimate
from apps.admissions.labels import next_step, verdict_sentence
from apps.admissions.life import Life, Stretch
from apps.admissions.life_relation import BLOCKING
from apps.admissions.life_selectors import (
    Siblings,
    life_of_work,
    other_attempts,
    plain_pods,
    pods_of,
    siblings,
    work_uid_of_pod,
)
from apps.admissions.life_words import PHASE_SENTENCES, PHASE_STEPS
from apps.admissions.queued import Standing, queue_key, standings
from apps.admissions.surroundings import Surroundings
from apps.admissions.workloads import Owners, find_workload
from apps.fleet.models import Cluster
from apps.observations.models import Pod, Workload
from apps.quotas.team_quota import offers_in

_BEFORE_PLACEMENT = frozenset({"gated", "queued", "backoff", "held", "reserved"})


@dataclass(frozen=True, slots=True)
class Subject:
    """What is explained: `work` or `pod`, one of them."""

    cluster: Cluster
    kind: str
    uid: str
    namespace: str
    name: str
    queue_name: str
    queue: str
    team: Team | None
    work: Workload | None = None
    pod: Pod | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """`sentence` and `action` answer "why is it not running and what can I do"; `action` is "" where it runs or is over.
    `stretch`: the present one, None when the work is gone; `verdict` None where nothing keeps it from running.
    `estimate` and `unseen_run_seconds`, how long the evicted attempts ran that nobody saw, are known to the rollups
    (apps.usage.explained); None: not known, or there is none."""

    subject: Subject
    life: Life
    stretch: Stretch | None
    verdict: Verdict | None
    sentence: str
    action: str
    standing: Standing
    siblings: Siblings
    others: list[Workload]
    estimate: Estimate | None = None
    unseen_run_seconds: int | None = None


def find_subject(*, uid: str, now: datetime, team_ids: Collection[int] | None) -> Subject | None:
    found = find_workload(uid=uid, now=now, team_ids=team_ids)
    if found is not None:
        work, owners = found
        return Subject(
            cluster=work.cluster,
            kind=work.kind,
            uid=work.uid,
            namespace=work.namespace,
            name=work.name,
            queue_name=work.queue_name,
            queue=owners.queue_of(work),
            team=owners.team_of(work),
            work=work,
        )
    for pod in plain_pods(uid):
        work_uid = work_uid_of_pod(pod)
        if work_uid:
            return find_subject(uid=work_uid, now=now, team_ids=team_ids)
        owners = Owners(now=now, clusters=[pod.cluster])
        place = (pod.cluster_id, Workload.Kind.WORKLOAD.value, pod.namespace, pod.queue_name, "")
        team_id = owners.team_id_of(place)
        if team_ids is None or team_id in team_ids:
            queue = owners.queue_at(*place[:4])
            team = owners.teams.get(team_id or 0)
            return Subject(
                pod.cluster, "Pod", uid, pod.namespace, pod.name, pod.queue_name, queue, team, pod=pod
            )
    return None


def explain(*, uid: str, now: datetime, team_ids: Collection[int] | None) -> Explanation | None:
    """None when there is no such work or the reader may not see it. A pod of queued work is explained by its work."""
    subject = find_subject(uid=uid, now=now, team_ids=team_ids)
    if subject is None:
        return None
    work = subject.work
    life = life_of_work(
        cluster_id=subject.cluster.pk,
        uid=subject.uid,
        now=now,
        counted_evictions=work.evictions if work else 0,
    )
    stretch = life.now
    verdict = _verdict(subject, stretch)
    if (
        stretch is not None
        and verdict is not None
        and stretch.phase == "unplaced"
        and stretch.rule != "phase"
    ):
        stretch = replace(stretch, layer=verdict.layer, cause=verdict.cause, rule=verdict.rule)
        life = replace(life, stretches=[*life.stretches[:-1], stretch])
    sentence, action = _words(stretch, verdict)
    same = Siblings((), 0, 0)
    if verdict is not None:
        same = siblings(
            uid=subject.uid,
            cluster_slug=subject.cluster.slug,
            queue=subject.queue,
            verdict=verdict,
            now=now,
            team_ids=team_ids,
        )
    return Explanation(
        subject=subject,
        life=life,
        stretch=stretch,
        verdict=verdict,
        sentence=sentence,
        action=action,
        standing=_standing(subject, now),
        siblings=same,
        others=other_attempts(work) if work else [],
    )


def _verdict(subject: Subject, stretch: Stretch | None) -> Verdict | None:
    if stretch is None or stretch.phase not in BLOCKING:
        return None
    early = stretch.phase in _BEFORE_PLACEMENT
    if early and subject.work is not None:
        return Surroundings([subject.cluster.pk]).verdict(
            cluster_id=subject.cluster.pk,
            queue=subject.queue,
            state=stretch.state,
            reason=stretch.reason,
            message=stretch.message,
            checks=subject.work.checks if stretch.state == Workload.State.RESERVED else (),
        )
    if stretch.phase == "unplaced":
        return Surroundings([subject.cluster.pk]).verdict(
            cluster_id=subject.cluster.pk,
            queue="",
            state="",
            reason=stretch.reason,
            message=stretch.message,
            checks=(),
            one_pod=_one_pod(subject),
        )
    return classify(reason=stretch.reason, message=stretch.message)


def _one_pod(subject: Subject) -> str:
    """What a pod of it that has no node asks for: the scheduler's text is read beside the nodes that could take it."""
    pod = subject.pod
    if subject.work is not None:
        waiting = pods_of(subject.work).filter(gone_at=None, node_name="")
        pod = waiting.order_by("name", "id").first()
    return json.dumps({"requests": pod.requests, "placement": pod.placement}) if pod else "{}"


def _words(stretch: Stretch | None, verdict: Verdict | None) -> tuple[str, str]:
    if stretch is None:
        return "", ""
    lead = str(PHASE_SENTENCES[stretch.phase])
    if verdict is None:
        return f"{lead}.", ""
    block = block_of(phase=stretch.phase, state=stretch.state, reason=stretch.reason, message=stretch.message)
    if block.rule == "phase" or not stretch.message.strip():
        return f"{lead}.", str(PHASE_STEPS[stretch.phase])
    return f"{lead}: {verdict_sentence(verdict).rstrip('.')}.", next_step(verdict)


def _standing(subject: Subject, now: datetime) -> Standing:
    work = subject.work
    if work is None or work.state != Workload.State.PENDING or work.gone_at is not None:
        return Standing()
    asked = {queue_key(work.cluster_id, work.kind, subject.queue)}
    offers = offers_in(now=now, clusters=[subject.cluster], queues=asked)
    found = standings([work], queues={work.pk: subject.queue}, offers=offers, now=now)
    return found.get(work.pk, Standing())
