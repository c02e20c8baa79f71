"""Submits setups to a real Kueue and writes down where they come to rest. Input: an API client and setups; output: one
recording per setup, plain data (see `_Run.record`).

Contention has to begin at one instant: every queue of a setup has an admission check that is inactive while work is
created, and one patch makes it active, so that Kueue lets all of them go at once. (The check stays pending for the
work: quota is reserved, and that is what is compared.) A circle of cohorts would hold queues back as well, but Kueue
0.17 ends itself over a queue that it first met below one, forgets its flavors' labels there, and hangs when it shares
fairly. Nobody owns the workloads, so the part of a job controller is played here: who was evicted gives back its quota.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kubernetes.client import ApiClient
from kubernetes.client.exceptions import ApiException

from .setups import CohortSpec, QueueSpec, Quota, Setup, WorkSpec

GROUP = "/apis/kueue.x-k8s.io/v1beta2"
POLL_SECONDS, CALM_SECONDS, MOST_SECONDS = 0.25, 2.5, 50.0
GATE = "gate"
MERGE = "application/merge-patch+json"
Obj = dict[str, Any]


@dataclass(frozen=True)
class Api:
    """Raw calls, JSON in and out."""

    client: ApiClient

    def call(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        headers = {"Accept": "application/json", "Content-Type": kind}
        call = self.client.param_serialize(
            method, path, header_params=headers, body=body, auth_settings=["BearerToken"]
        )
        answer = self.client.call_api(*call, _request_timeout=30)
        data: bytes = answer.response.data
        if not 200 <= answer.status < 300:
            raise ApiException(status=answer.status, reason=data.decode(errors="replace"))
        return json.loads(data or b"{}")

    def create(self, path: str, body: Obj) -> None:
        self.call("POST", path, body)

    def patch(self, path: str, body: Obj) -> None:
        self.call("PATCH", path, body, MERGE)

    def delete(self, path: str) -> None:
        try:
            self.call("DELETE", path)
        except ApiException as error:
            if error.status != 404:
                raise


def shares_fairly(client: ApiClient, *, prefix: str) -> bool:
    """Whether Kueue shares fairly, read off a queue made for that."""
    api, path = Api(client), f"{GROUP}/clusterqueues"
    name = f"{prefix}-probe"
    api.create(path, {**_head("ClusterQueue"), "metadata": {"name": name}, "spec": {"cohortName": name}})
    try:
        for _attempt in range(20):
            time.sleep(POLL_SECONDS)
            status = api.call("GET", f"{path}/{name}").get("status", {})
            if "conditions" in status:
                return "fairSharing" in status
        return False
    finally:
        api.delete(f"{path}/{name}")


def run_setups(client: ApiClient, setups: Sequence[Setup], *, prefix: str) -> list[Obj]:
    """All of them side by side in one namespace; everything is removed at the end."""
    run = _Run(Api(client), prefix, list(setups))
    try:
        run.prepare()
        for wave in range(max(setup.waves for setup in setups)):
            run.wave(wave)
        return run.recordings()
    finally:
        run.clean_up()


@dataclass
class _Run:
    api: Api
    prefix: str
    setups: list[Setup]
    made: list[str] = field(default_factory=list)
    waves: dict[int, list[Obj]] = field(default_factory=dict)

    # ---- names ------------------------------------------------------------------------------------------------
    @property
    def namespace(self) -> str:
        return self.prefix

    def name(self, setup: Setup, name: str) -> str:
        return f"{self.prefix}-{setup.seed}{'f' if setup.fair else 'c'}-{name}"

    def _create(self, collection: str, body: Obj) -> None:
        self.api.create(collection, body)
        self.made.append(f"{collection}/{body['metadata']['name']}")

    # ---- objects ----------------------------------------------------------------------------------------------
    def prepare(self) -> None:
        self._create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        for setup in self.setups:
            for flavor in sorted({f for queue in setup.queues for f in queue.flavors}):
                self._flavor(setup, flavor)
            self._create(
                f"{GROUP}/admissionchecks",
                {
                    **_head("AdmissionCheck"),
                    "metadata": {"name": self.name(setup, GATE)},
                    "spec": {"controllerName": "example.com/gate"},
                },
            )
            for cohort in setup.cohorts:
                self._cohort(setup, cohort)
            for queue in setup.queues:
                self._queue(setup, queue)

    def _flavor(self, setup: Setup, flavor: str) -> None:
        spec: Obj = {"nodeLabels": {"flavor": flavor}}
        if flavor in setup.tainted:
            spec["nodeTaints"] = [{"key": "spot", "value": "true", "effect": "NoSchedule"}]
        meta = {"name": self.name(setup, flavor)}
        self._create(f"{GROUP}/resourceflavors", {**_head("ResourceFlavor"), "metadata": meta, "spec": spec})

    def _groups(self, setup: Setup, flavors: Iterable[str], quotas: dict[str, dict[str, Quota]]) -> list[Obj]:
        return [
            {
                "coveredResources": list(setup.resources),
                "flavors": [
                    {
                        "name": self.name(setup, flavor),
                        "resources": [{"name": r, **_cell(quotas[flavor][r])} for r in setup.resources],
                    }
                    for flavor in flavors
                ],
            }
        ]

    def _cohort(self, setup: Setup, cohort: CohortSpec) -> None:
        name = self.name(setup, cohort.name)
        spec: Obj = {"parentName": self.name(setup, cohort.parent)} if cohort.parent else {}
        flavors = [f for f in cohort.quotas if any(f in queue.flavors for queue in setup.queues)]
        if flavors:
            spec["resourceGroups"] = self._groups(setup, flavors, cohort.quotas)
        if setup.fair:
            spec["fairSharing"] = {"weight": cohort.weight}
        self._create(f"{GROUP}/cohorts", {**_head("Cohort"), "metadata": {"name": name}, "spec": spec})

    def _queue(self, setup: Setup, queue: QueueSpec) -> None:
        name = self.name(setup, queue.name)
        spec: Obj = {
            "resourceGroups": self._groups(setup, queue.flavors, queue.quotas),
            "namespaceSelector": {},
            "queueingStrategy": queue.strategy,
            "preemption": {"withinClusterQueue": queue.within, "reclaimWithinCohort": queue.reclaim},
            "flavorFungibility": {"whenCanBorrow": queue.when_borrow, "whenCanPreempt": queue.when_preempt},
            "stopPolicy": "Hold" if queue.stopped else "None",
            "admissionChecksStrategy": {"admissionChecks": [{"name": self.name(setup, GATE)}]},
        }
        if queue.cohort:
            spec["cohortName"] = self.name(setup, queue.cohort)
        if queue.borrow_within != "Never":
            within = {"policy": queue.borrow_within, "maxPriorityThreshold": queue.threshold}
            spec["preemption"]["borrowWithinCohort"] = {k: v for k, v in within.items() if v is not None}
        if queue.preference:
            spec["flavorFungibility"]["preference"] = queue.preference
        if setup.fair:
            spec["fairSharing"] = {"weight": queue.weight}
        self._create(
            f"{GROUP}/clusterqueues", {**_head("ClusterQueue"), "metadata": {"name": name}, "spec": spec}
        )
        self._create(
            f"{GROUP}/namespaces/{self.namespace}/localqueues",
            {**_head("LocalQueue"), "metadata": {"name": name}, "spec": {"clusterQueue": name}},
        )

    def _work(self, setup: Setup, work: WorkSpec) -> None:
        meta = {"name": self.name(setup, work.name), "namespace": self.namespace}
        spec = {
            "queueName": self.name(setup, work.queue),
            "priority": work.priority,
            "podSets": [
                {
                    "name": p.name,
                    "count": p.count,
                    **({"minCount": p.min_count} if p.min_count is not None else {}),
                    "template": {"spec": _pod_spec(p)},
                }
                for p in work.pod_sets
            ],
        }
        self._create(self._workloads, {**_head("Workload"), "metadata": meta, "spec": spec})

    @property
    def _workloads(self) -> str:
        return f"{GROUP}/namespaces/{self.namespace}/workloads"

    # ---- waves ------------------------------------------------------------------------------------------------
    def wave(self, wave: int) -> None:
        going = [setup for setup in self.setups if wave < setup.waves]
        for setup in going:
            self._gate(setup, active=False)
        time.sleep(1.5)
        for setup in going:
            for work in setup.work:
                if work.wave == wave:
                    self._work(setup, work)
        time.sleep(1.5)
        for setup in going:
            self._gate(setup, active=True)
        self._come_to_rest()
        state = self._state()
        for setup in going:
            self.waves.setdefault(id(setup), []).append(self.record(setup, state))

    def _gate(self, setup: Setup, *, active: bool) -> None:
        """Let everything go, or nothing."""
        condition = {
            "type": "Active",
            "status": "True" if active else "False",
            "reason": "Gate",
            "message": "",
            "lastTransitionTime": _now(),
        }
        path = f"{GROUP}/admissionchecks/{self.name(setup, GATE)}/status"
        self.api.patch(path, {"status": {"conditions": [condition]}})

    def _come_to_rest(self) -> None:
        """Until nothing changed for a while. Who is evicted gives back its quota."""
        started = changed = time.monotonic()
        before: Any = None
        while time.monotonic() - changed < CALM_SECONDS and time.monotonic() - started < MOST_SECONDS:
            items = self.api.call("GET", self._workloads)["items"]
            state = [(i["metadata"]["uid"], _essence(i)) for i in items], self._queue_statuses()
            if state != before:
                before, changed = state, time.monotonic()
            for item in items:
                if _is(item, "Evicted") and _is(item, "QuotaReserved"):
                    self._give_back(item)
            time.sleep(POLL_SECONDS)

    def _queue_statuses(self) -> list[Any]:
        """They follow the work, at the pace that Kueue's client is allowed."""
        queues = self.api.call("GET", f"{GROUP}/clusterqueues")["items"]
        return [
            (
                q["metadata"]["name"],
                q.get("status", {}).get("flavorsReservation"),
                q.get("status", {}).get("fairSharing"),
            )
            for q in queues
            if q["metadata"]["name"].startswith(f"{self.prefix}-")
        ]

    def _give_back(self, item: Obj) -> None:
        """What a job controller does once the pods are gone."""
        at = _now()
        evicted = next(c for c in item["status"]["conditions"] if c["type"] == "Evicted")
        again = {"Requeued": ("True", evicted["reason"]), "QuotaReserved": ("False", "Pending")}
        again["Admitted"] = ("False", "NoReservation")
        kept = [c for c in item["status"]["conditions"] if c["type"] not in again]
        kept += [
            {"type": t, "status": s, "reason": r, "message": evicted["message"], "lastTransitionTime": at}
            for t, (s, r) in again.items()
        ]
        path = f"{self._workloads}/{item['metadata']['name']}/status"
        version = {"resourceVersion": item["metadata"]["resourceVersion"]}
        try:
            self.api.patch(path, {"metadata": version, "status": {"admission": None, "conditions": kept}})
        except ApiException as error:
            if error.status != 409:  # it was changed meanwhile; the next look sees it again
                raise

    # ---- what came of it --------------------------------------------------------------------------------------
    def _state(self) -> Obj:
        found: Obj = {
            "work": {i["metadata"]["name"]: i for i in self.api.call("GET", self._workloads)["items"]}
        }
        for kind in ("clusterqueues", "cohorts"):
            found[kind] = {i["metadata"]["name"]: i for i in self.api.call("GET", f"{GROUP}/{kind}")["items"]}
        return found

    def record(self, setup: Setup, state: Obj) -> Obj:
        """{work: {name: {uid, created, holds, reserved_at, reason, message, preempted, evicted}}, queues: {name:
        {reservation, share}}, cohorts: {name: share}}; times in seconds, names without the prefix."""
        names = {self.name(setup, work.name): work.name for work in setup.work}
        flavors = {self.name(setup, f): f for queue in setup.queues for f in queue.flavors}
        queues = {self.name(setup, queue.name): queue.name for queue in setup.queues}
        cohorts = {self.name(setup, cohort.name): cohort.name for cohort in setup.cohorts}
        plain = {**flavors, **queues, **cohorts}
        return {
            "work": {
                plain_name: _work_record(state["work"][name], plain)
                for name, plain_name in names.items()
                if name in state["work"]
            },
            "queues": {
                plain_name: _queue_record(state["clusterqueues"][name], plain)
                for name, plain_name in queues.items()
            },
            "cohorts": {
                plain_name: _share(state["cohorts"][name])
                for name, plain_name in cohorts.items()
                if name in state["cohorts"]
            },
        }

    def recordings(self) -> list[Obj]:
        return [
            {"setup": setup.as_data(), "held_back": "check", "waves": self.waves[id(setup)]}
            for setup in self.setups
        ]

    def clean_up(self) -> None:
        """Work first: what holds quota keeps its queue."""
        for item in self.api.call("GET", self._workloads)["items"]:
            path = f"{self._workloads}/{item['metadata']['name']}"
            if item["metadata"].get("finalizers"):
                self.api.patch(path, {"metadata": {"finalizers": None}})
            self.api.delete(path)
        for path in reversed(self.made):
            if "/workloads/" not in path:
                self.api.delete(path)


# ---- parts of objects -----------------------------------------------------------------------------------------------


def _head(kind: str) -> Obj:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _cell(quota: Quota) -> Obj:
    said = {"nominalQuota": quota.nominal, "borrowingLimit": quota.borrow, "lendingLimit": quota.lend}
    return {key: value for key, value in said.items() if value is not None}


def _pod_spec(pod_set: Any) -> Obj:
    requests = {resource: str(amount) for resource, amount in pod_set.requests.items()}
    spec: Obj = {
        "containers": [
            {"name": "c", "image": "none", "resources": {"requests": requests, "limits": requests}}
        ],
        "restartPolicy": "Never",
    }
    if pod_set.selector:
        spec["nodeSelector"] = pod_set.selector
    if pod_set.tolerates:
        spec["tolerations"] = [{"key": "spot", "operator": "Exists"}]
    return spec


def _is(item: Obj, kind: str) -> bool:
    return any(
        c["type"] == kind and c["status"] == "True" for c in item.get("status", {}).get("conditions", ())
    )


def _essence(item: Obj) -> Any:
    status = item.get("status", {})
    conditions = sorted(
        (c["type"], c["status"], c["reason"], c["message"]) for c in status.get("conditions", ())
    )
    return conditions, json.dumps(status.get("admission"), sort_keys=True)


def _seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def _work_record(item: Obj, plain: dict[str, str]) -> Obj:
    status = item.get("status", {})
    conditions = {c["type"]: c for c in status.get("conditions", ())}
    reserved = conditions.get("QuotaReserved", {})
    holds = None
    if reserved.get("status") == "True":
        holds = {
            a["name"]: {
                "count": a.get("count"),
                "flavors": {r: plain[f] for r, f in a.get("flavors", {}).items()},
                "amounts": a.get("resourceUsage", {}),
            }
            for a in status["admission"]["podSetAssignments"]
        }
    evictions = status.get("schedulingStats", {}).get("evictions", ())
    return {
        "uid": item["metadata"]["uid"],
        "created": _seconds(item["metadata"]["creationTimestamp"]),
        "holds": holds,
        "reserved_at": _seconds(reserved["lastTransitionTime"]) if holds is not None else 0,
        "reason": "" if holds is not None else reserved.get("reason", ""),
        "message": "" if holds is not None else _without_prefix(reserved.get("message", ""), plain),
        "evictions": sum(e["count"] for e in evictions),
        "preempted": conditions["Preempted"]["reason"] if _is(item, "Preempted") else "",
    }


def _without_prefix(message: str, plain: dict[str, str]) -> str:
    for name, short in sorted(plain.items(), key=lambda pair: -len(pair[0])):
        message = message.replace(name, short)
    return message


def _share(item: Obj) -> str | None:
    share = item.get("status", {}).get("fairSharing", {}).get("weightedShare")
    return None if share is None else str(share)


def _queue_record(item: Obj, plain: dict[str, str]) -> Obj:
    return {
        "reservation": {
            plain[f["name"]]: {
                r["name"]: [r.get("total", "0"), r.get("borrowed", "0")] for r in f["resources"]
            }
            for f in item.get("status", {}).get("flavorsReservation", ())
        },
        "share": _share(item),
    }
