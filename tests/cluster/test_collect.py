"""The collectors against a real API server: what is stored is what the server says."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings

from apps.fleet.models import Cluster
from apps.observations import models
from apps.observations.models import Event, SourceState
from apps.observations.selectors import source_statuses
from worker.clients.kube import KubeClient, client_for
from worker.parsers.kinds import KINDS, decode_list

from .access import require_cluster
from .conftest import PriorityClass, Pull

require_cluster()
pytestmark = [pytest.mark.cluster, pytest.mark.django_db]
SOURCES = ("nodes", "pods", "events", "kueue", "volcano", "devices")


def stored(cluster: Cluster, kind: str) -> dict[str, Any]:
    model = getattr(models, KINDS[kind].model)
    found = model.objects.filter(cluster=cluster, gone_at=None)
    if model in (models.ClusterObject, models.Workload):
        found = found.filter(kind=kind)
    return {row.uid: row for row in found}


def served(client: KubeClient, kind: str, version: str) -> dict[str, str]:
    """{uid: resourceVersion} as the server lists it."""
    found = KINDS[kind]
    return {
        item.metadata.uid: item.metadata.resource_version
        for body in client.list_pages(found.path(version))
        for item in decode_list(found, version, body).items
    }


@pytest.mark.parametrize("source", SOURCES)
def test_a_pull_ends_well_and_the_next_one_only_asks_what_changed(
    cluster: Cluster, pull: Pull, source: str
) -> None:
    first = pull(source)
    assert first.quarantined == 0
    state = SourceState.objects.get(cluster=cluster, source=source)
    second = pull(source)
    for run in (first, second):
        assert run.outcome == "ok"
        # Volcano's kinds may be served where no scheduler of its is configured; that is said, and nothing else.
        assert run.error == "" or (source == "volcano" and settings.VOLCANO_CONFIGMAP[1] in run.error)
    if state.presence == "installed":
        assert (first.mode, second.mode) == ("list", "watch")
        assert second.objects_seen <= first.objects_seen
        assert second.bytes_read < first.bytes_read or first.objects_seen < 50
    (status,) = [s for s in source_statuses(now=second.ended_at, clusters=[cluster]) if s.source == source]
    assert status.state in ("ok", "absent")


def test_nodes_and_pods_are_those_of_the_server(cluster: Cluster, pull: Pull, client: KubeClient) -> None:
    for source, kind in (("nodes", "Node"), ("pods", "Pod")):
        before = served(client, kind, "v1")
        pull(source)
        after = served(client, kind, "v1")
        ours = {uid: row.resource_version for uid, row in stored(cluster, kind).items()}
        assert before.keys() & after.keys() <= ours.keys() <= before.keys() | after.keys()
        unchanged = {uid for uid, version in before.items() if after.get(uid) == version}
        assert all(ours[uid] == before[uid] for uid in unchanged)


def test_kueues_objects_are_those_of_the_server(
    cluster: Cluster, pull: Pull, client: KubeClient, kueue: str
) -> None:
    before = {kind: served(client, kind, kueue) for kind in ("ClusterQueue", "LocalQueue", "Workload")}
    result = pull("kueue")
    assert result.objects_seen >= sum(map(len, before.values()))
    for kind, uids in before.items():
        ours = stored(cluster, kind)
        after = served(client, kind, kueue)
        assert uids.keys() & after.keys() <= ours.keys() <= uids.keys() | after.keys()


def test_events_are_stored(cluster: Cluster, pull: Pull, client: KubeClient) -> None:
    listed = served(client, "Event", "v1")
    pull("events")
    ours = set(Event.objects.filter(cluster=cluster).values_list("uid", flat=True))
    assert len(ours & listed.keys()) >= 0.9 * len(listed)


def test_what_comes_and_goes_between_two_pulls_is_seen(
    cluster: Cluster, pull: Pull, priority_class: PriorityClass
) -> None:
    assert pull("kueue").outcome == "ok"
    priority_class.create()
    assert pull("kueue").mode == "watch"
    found = models.ClusterObject.objects.get(cluster=cluster, name=priority_class.name)
    assert (found.kind, found.spec["value"], found.gone_at) == ("WorkloadPriorityClass", 1, None)
    priority_class.delete()
    result = pull("kueue")
    assert result.rows_gone >= 1
    found.refresh_from_db()
    assert found.gone_at is not None


@pytest.mark.parametrize("version", ["1", str(10**15)], ids=["long gone", "from the future"])
def test_a_resume_point_that_does_not_hold_is_listed_anew(
    cluster: Cluster, pull: Pull, kueue: str, version: str
) -> None:
    pull("kueue")
    state = SourceState.objects.get(cluster=cluster, source="kueue")
    state.cursors["Workload"]["resource_version"] = version
    state.save()
    uids = stored(cluster, "Workload").keys()
    result = pull("kueue")
    assert (result.outcome, result.error, result.mode) == ("ok", "", "mixed")
    assert stored(cluster, "Workload").keys() == uids
    state.refresh_from_db()
    assert state.cursors["Workload"]["resource_version"] != version


def test_missing_rights_keep_what_is_stored(cluster: Cluster, pull: Pull, powerless: str) -> None:
    pull("nodes")
    uids = stored(cluster, "Node").keys()
    cluster.kubeconfig_path = powerless
    cluster.save()
    result = pull("nodes")
    assert (result.outcome, result.error_kind) == ("failed", "forbidden")
    assert 'cannot watch resource "nodes"' in result.error or 'cannot list resource "nodes"' in result.error
    assert stored(cluster, "Node").keys() == uids
    assert client_for(powerless) is not None
