"""What of a cluster somebody may ask to be changed, as last observed. Input: a cluster's scene and the teams that the
reader may ask for (None: any); output: places, and one of them ready for the form.

Invariants: who asks for teams may name the ClusterQueues, LocalQueues and Volcano queues that are bound to these teams,
and no cohort; anything else does not exist for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from apps.changes.edits import Edit, NodeEdit, key_of
from apps.changes.errors import Fault
from apps.changes.form import Edited, Place
from apps.quotas.situation import Scene
from apps.quotas.snapshot import ClusterView
from apps.quotas.volcano import KIND as VOLCANO
from apps.quotas.what_if import allowed_names
from apps.quotas.what_if_apply import Names
from apps.quotas.what_if_form import cohort_names, find_target

KUEUE = ("ClusterQueue", "Cohort")


@dataclass(frozen=True, slots=True)
class Editable:
    scene: Scene
    names: Names
    team_ids: Collection[int] | None

    @classmethod
    def of(cls, scene: Scene, team_ids: Collection[int] | None) -> Editable:
        return cls(scene, allowed_names(scene, team_ids), team_ids)

    @property
    def view(self) -> ClusterView:
        return self.scene.snapshot.views[self.scene.cluster.pk]

    def places(self) -> list[Place]:
        """Everything that may be named, by kind and name."""
        return sorted(self._places(), key=lambda place: (place.kind, place.namespace, place.name))

    def _places(self) -> Iterator[Place]:
        for queue in self.scene.situation.queues:
            if self.names.queue(queue.name):
                yield Place("ClusterQueue", "", queue.name)
        for name in () if self.names.restricted else cohort_names(self.scene.situation):
            yield Place("Cohort", "", name)
        for namespace, name in self.names.local_queues:
            yield Place("LocalQueue", namespace, name)
        for name in self.view.objects[VOLCANO]:
            if self._own_volcano(name):
                yield Place(VOLCANO, "", name)

    def _own_volcano(self, name: str) -> bool:
        return self.team_ids is None or not self.view.teams[VOLCANO, name].isdisjoint(self.team_ids)

    def find(self, place: Place) -> Edited | None:
        """None: there is no such thing, or it may not be named."""
        if place.kind in KUEUE:
            allowed = (
                self.names.queue(place.name) if place.kind == "ClusterQueue" else not self.names.restricted
            )
            node = find_target(self.scene.situation, place.key) if allowed else None
            return None if node is None else Edited(place, node=node)
        if place.kind == "LocalQueue" and (place.namespace, place.name) in self.names.local_queues:
            for item in self.view.local_queues:
                if (item.namespace, item.name) == (place.namespace, place.name):
                    return Edited(place, spec=item.spec)
        if (
            place.kind == VOLCANO
            and place.name in self.view.objects[VOLCANO]
            and self._own_volcano(place.name)
        ):
            item = self.view.objects[VOLCANO][place.name]
            return Edited(place, spec=item.spec, state=str(item.status.get("state") or ""))
        return None

    def unknown(self, edits: Iterable[Edit]) -> list[Fault]:
        """What edits name and may not: which objects and cohorts of others there are is not theirs to find out."""
        found = []
        for edit in edits:
            if self.find(Place(*key_of(edit))) is None:
                found.append(Fault(f"{edit.field}.name", "unknown", edit.name))
            parent = edit.values.get("parent") if isinstance(edit, NodeEdit) else None
            if parent and not self.names.cohort(parent):
                found.append(Fault(f"{edit.field}.set.cohort", "unknown", str(parent)))
        return found

    def owners(self, place: Place) -> Collection[int]:
        """The teams that a queue belongs to."""
        if place.kind == "LocalQueue":
            target, _stopped = self.scene.local_queues.get((place.namespace, place.name), ("", False))
            team = self.scene.bindings.team_id_for(
                self.scene.cluster.pk,
                namespace=place.namespace,
                queue_name=place.name,
                queue=target,
                volcano=False,
            )
            return () if team is None else (team,)
        found: Collection[int] = self.view.teams.get((place.kind, place.name), ())
        return found


def place_of(text: str) -> Place | None:
    """ "KIND/NAME" or "KIND/NAMESPACE/NAME"; None where it is neither."""
    kind, *names = text.split("/")
    if not all(names) or len(names) != (2 if kind == "LocalQueue" else 1):
        return None
    return Place(kind, names[0] if len(names) > 1 else "", names[-1])
