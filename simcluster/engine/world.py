"""The simulation's clock, heap, random sources and writes. One instance per run."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from hashlib import blake2b
from random import Random
from typing import Any

from simcluster.kinds import KINDS, Kind
from simcluster.store import Store
from simcluster.telemetry import Telemetry
from simcluster.timestamps import micro_stamp, stamp

from .model import Obj

EVENT_TTL = 3600
_ASIDE = 1 << 48
_EVENT, _POD = KINDS["Event"], KINDS["Pod"]


class World:
    """Time moves by `run_until`; steps at the same second run in the order in which they were planned."""

    def __init__(self, store: Store, telemetry: Telemetry, seed: int, epoch: int) -> None:
        self.store, self.telemetry = store, telemetry
        self.seed, self.epoch = seed, epoch
        self.now = epoch
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._planned = self._aside = 0
        self._events: dict[tuple[str, str, str], Obj] = {}
        self.live = False
        """True once the run has caught up with the present: only then do heartbeats go on."""

    # ---- time ---------------------------------------------------------------------------------------------
    def at(self, when: float, step: Callable[..., None], *args: Any) -> None:
        """Plan a step; one in the past runs next."""
        self._planned += 1
        heapq.heappush(self._heap, (max(int(when), self.now), self._planned, step, args))

    def after(self, seconds: float, step: Callable[..., None], *args: Any) -> None:
        self.at(self.now + seconds, step, *args)

    def aside(self, seconds: float, step: Callable[..., None], *args: Any) -> None:
        """Plan a step that is no part of the history: it runs last in its second and shifts nothing of it."""
        self._aside += 1
        heapq.heappush(self._heap, (int(self.now + seconds), _ASIDE + self._aside, step, args))

    def run_until(self, when: float) -> int:
        """Run every step up to a time; gives how many."""
        done = 0
        heap = self._heap
        while heap and heap[0][0] <= when:
            self.now, _number, step, args = heapq.heappop(heap)
            step(*args)
            done += 1
        self.now = max(self.now, int(when))
        return done

    # ---- chance, names ------------------------------------------------------------------------------------
    def random(self, *what: object) -> Random:
        """A source of its own for each purpose, so that one does not shift another."""
        return Random(f"{self.seed}:{':'.join(map(str, what))}")

    def uid(self, *what: object) -> str:
        digest = blake2b(f"{self.seed}:{self.epoch}:{what}".encode(), digest_size=16).hexdigest()
        return f"{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-a{digest[17:20]}-{digest[20:]}"

    def suffix(self, count: int, *what: object) -> str:
        """Letters as Kubernetes appends them to generated names."""
        digest = blake2b(f"{self.seed}:{what}".encode(), digest_size=count).digest()
        return "".join("bcdfghjklmnpqrstvwxz2456789"[byte % 27] for byte in digest)

    # ---- writes -------------------------------------------------------------------------------------------
    def put(self, kind: Kind, obj: Obj) -> None:
        self.store.put(kind, obj, at=self.now)

    def remove(self, kind: Kind, key: str) -> None:
        self.store.remove(kind, key, at=self.now)

    def event(
        self,
        about: Obj,
        reason: str,
        message: str,
        component: str,
        *,
        warning: bool = False,
        kind: str = "",
        api_version: str = "",
    ) -> None:
        """Say something about an object. The same words about the same object count up one event."""
        metadata = about["metadata"]
        key = (metadata["uid"], reason, message)
        found = self._events.get(key)
        if found is not None:
            self._count_up(found)
            return
        obj = self._new_event(about, reason, message, component, warning, kind, api_version)
        self._events[key] = obj
        self.put(_EVENT, obj)
        self.at(self.now + EVENT_TTL, self._expire, key)

    def _new_event(
        self,
        about: Obj,
        reason: str,
        message: str,
        component: str,
        warning: bool,
        kind: str,
        api_version: str,
    ) -> Obj:
        metadata = about["metadata"]
        namespace = metadata.get("namespace", "default")
        self._planned += 1
        name = f"{metadata['name']}.{(self.now << 20) + self._planned % (1 << 20):016x}"
        involved = {
            "kind": kind or about["kind"],
            "namespace": metadata.get("namespace", ""),
            "name": metadata["name"],
            "uid": metadata["uid"],
            "apiVersion": api_version or about["apiVersion"],
            "resourceVersion": metadata.get("resourceVersion", ""),
        }
        now = stamp(self.now)
        scheduler = component == "default-scheduler"
        return {
            "kind": "Event",
            "apiVersion": "v1",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": self.uid("event", name, namespace),
                "creationTimestamp": now,
            },
            "involvedObject": {name: value for name, value in involved.items() if value},
            "reason": reason,
            "message": message[:1024],
            "source": {} if scheduler else {"component": component},
            "firstTimestamp": None if scheduler else now,
            "lastTimestamp": None if scheduler else now,
            **({} if scheduler else {"count": 1}),
            "type": "Warning" if warning else "Normal",
            "eventTime": micro_stamp(self.now) if scheduler else None,
            **({"action": "Scheduling"} if scheduler else {}),
            "reportingComponent": component,
            "reportingInstance": "default-scheduler-0" if scheduler else "",
        }

    def _count_up(self, obj: Obj) -> None:
        if obj["eventTime"]:
            series = obj.setdefault("series", {"count": 1})
            obj["series"] = {"count": series["count"] + 1, "lastObservedTime": micro_stamp(self.now)}
        else:
            obj["count"] += 1
            obj["lastTimestamp"] = stamp(self.now)
        obj["_until"] = self.now + EVENT_TTL
        self._write_event(obj)

    def _write_event(self, obj: Obj) -> None:
        until = obj.pop("_until")
        self.put(_EVENT, obj)
        obj["_until"] = until

    def _expire(self, key: tuple[str, str, str]) -> None:
        obj = self._events[key]
        until = obj.get("_until", self.now)
        if until > self.now:
            self.at(until, self._expire, key)
            return
        del self._events[key]
        metadata = obj["metadata"]
        # The history leaves this out: whoever reads it keeps events longer than the cluster does.
        self.store.remove(_EVENT, f"{metadata['namespace']}/{metadata['name']}", at=self.now, record=False)


def condition(obj: Obj, now: int, kind: str, status: str, reason: str, message: str) -> bool:
    """Set a status condition as Kubernetes does: the time moves only when the status flips. True if it changed."""
    conditions: list[Obj] = obj["status"].setdefault("conditions", [])
    for found in conditions:
        if found["type"] == kind:
            if (found["status"], found["reason"], found["message"]) == (status, reason, message):
                return False
            if found["status"] != status:
                found["lastTransitionTime"] = stamp(now)
            found.update(status=status, reason=reason, message=message)
            return True
    conditions.append(
        {
            "lastTransitionTime": stamp(now),
            "message": message,
            "observedGeneration": 1,
            "reason": reason,
            "status": status,
            "type": kind,
        }
    )
    return True


def drop_condition(obj: Obj, kind: str) -> None:
    conditions = obj["status"].get("conditions", [])
    obj["status"]["conditions"] = [found for found in conditions if found["type"] != kind]
