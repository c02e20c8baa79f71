"""KubeClient and the parsers against a real API server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from worker.clients.errors import ClientError
from worker.clients.kube import KubeClient
from worker.collectors.plan import Discovery
from worker.parsers.kinds import KINDS, Kind, decode_list, decode_watch, page_rows

from .access import CONTEXT, derived, require_cluster
from .conftest import PriorityClass

require_cluster()
pytestmark = pytest.mark.cluster


def listed(client: KubeClient, kind: Kind, version: str, limit: int = 500) -> tuple[list[Any], str]:
    """(items, version of the list); fails on anything that cannot be read."""
    items: list[Any] = []
    resource_version = ""
    for body in client.list_pages(kind.path(version), limit):
        page = decode_list(kind, version, body)
        rows, bad = page_rows(kind, page)
        assert bad == []
        assert len(rows) == len(page.items)
        items += page.items
        resource_version = page.resource_version
    return items, resource_version


def version_of(client: KubeClient, kind: Kind) -> str:
    found = Discovery(client).versions_of(kind)
    if not found:
        pytest.skip(f"this cluster does not serve {kind.plural}.{kind.group}")
    return found[0]


@pytest.mark.parametrize("name", KINDS)
def test_every_object_of_every_kind_is_read(client: KubeClient, name: str) -> None:
    kind = KINDS[name]
    version = version_of(client, kind)
    items, resource_version = listed(client, kind, version)
    raw = json.loads(client.get(kind.path(version)))
    assert resource_version
    # the second answer is a moment younger
    same = {i.metadata.uid for i in items} & {i["metadata"]["uid"] for i in raw["items"]}
    assert len(same) >= 0.9 * len(items)


def test_pages_hold_what_one_page_holds(client: KubeClient) -> None:
    kind = KINDS["Node"]
    small, _version = listed(client, kind, "v1", limit=3)
    whole, _version = listed(client, kind, "v1")
    assert [n.metadata.name for n in small] == [n.metadata.name for n in whole]
    assert len(whole) > 0


@pytest.mark.parametrize("name", ["Workload", "ClusterQueue", "LocalQueue"])
def test_both_versions_of_kueue_give_the_same_rows(client: KubeClient, name: str) -> None:
    kind = KINDS[name]
    if not {"v1beta2", "v1beta1"} <= set(client.served_versions(kind.group)):
        pytest.skip("this cluster serves only one version of Kueue")
    rows = []
    for version in ("v1beta2", "v1beta1"):
        items, _resource_version = listed(client, kind, version)
        rows.append({(i.metadata.uid, i.metadata.resource_version): kind.row(i) for i in items})
    both = rows[0].keys() & rows[1].keys()
    assert len(both) >= 0.9 * len(rows[0])
    assert all(rows[0][key] == rows[1][key] for key in both)


def test_the_clock_is_seen(client: KubeClient) -> None:
    client.get("/version")
    assert client.clock_skew_seconds is not None
    assert abs(client.clock_skew_seconds) < 3600


# ------------------------------------------------------------------ watches
def test_a_watch_sees_what_happens_after_the_list(
    client: KubeClient, kueue: str, priority_class: PriorityClass
) -> None:
    kind = KINDS["WorkloadPriorityClass"]
    _items, resource_version = listed(client, kind, kueue)
    priority_class.create()
    priority_class.relabel("changed")
    priority_class.delete()
    lines = client.watch(kind.path(kueue), resource_version, 5)
    seen = [decode_watch(kind, kueue, line) for line in lines]
    ours = [w for w in seen if w.obj is not None and w.obj.metadata.name == priority_class.name]
    assert [w.type for w in ours] == ["ADDED", "MODIFIED", "DELETED"]
    assert ours[1].obj is not None
    assert ours[1].obj.metadata.labels == {"portal-test": "changed"}
    # and from the last version on there is nothing of it any more
    after = list(client.watch(kind.path(kueue), ours[-1].resource_version, 2))
    assert not [line for line in after if priority_class.name.encode() in line]


def test_bookmarks_are_read(client: KubeClient) -> None:
    kind = KINDS["Node"]
    asked = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    try:
        lines = list(client.watch(kind.path("v1"), "0", 5, asked))
    except ClientError as error:
        if error.status == 422:
            pytest.skip("this server does not stream lists")
        raise
    seen = [decode_watch(kind, "v1", line) for line in lines]
    mark = next((w for w in seen if w.type == "BOOKMARK"), None)
    if mark is None:
        pytest.skip("this server does not stream lists")
    assert int(mark.resource_version) > 0
    assert mark.obj is None


def test_a_version_long_gone_is_expired(client: KubeClient, kueue: str) -> None:
    kind = KINDS["Workload"]
    (line,) = client.watch(kind.path(kueue), "1", 3)
    watched = decode_watch(kind, kueue, line)
    assert (watched.type, watched.code) == ("ERROR", 410)


def test_a_version_from_the_future_is_expired(client: KubeClient) -> None:
    with pytest.raises(ClientError, match="Too large resource version") as caught:
        list(client.watch("/api/v1/nodes", str(10**15), 2))
    assert caught.value.kind == "expired"


def test_an_old_continue_token_is_expired(client: KubeClient) -> None:
    # a token for version 1 in the API server's own format
    token = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhXHUwMDAwIn0"
    refused = refusal(client, "/api/v1/nodes", {"limit": 1, "continue": token})
    if (
        refused is None
    ):  # etcd forgets in steps of five minutes; the client's own tests read the recorded refusal
        pytest.skip("this server is so young that it still knows its first version")
    assert (refused.kind, refused.status) == ("expired", 410)


def refusal(client: KubeClient, path: str, params: dict[str, str | int]) -> ClientError | None:
    try:
        client.get(path, params)
    except ClientError as error:
        return error
    return None


# ------------------------------------------------------------------ refusals
def test_what_is_not_installed(client: KubeClient) -> None:
    assert client.served_versions("no-such-group.example.org") == []
    with pytest.raises(ClientError) as caught:
        client.get("/apis/no-such-group.example.org/v1/things")
    assert caught.value.kind == "not_found"


def test_an_unknown_token(tmp_path: Path) -> None:
    stranger = KubeClient(derived(tmp_path, user={"token": "nobody-knows-this"}), CONTEXT, 5, 10)
    with pytest.raises(ClientError) as caught:
        stranger.get("/api/v1/nodes")
    assert (caught.value.kind, caught.value.status) == ("unauthorized", 401)


def test_a_user_without_rights(powerless: str) -> None:
    poor = KubeClient(powerless, CONTEXT, 5, 10)
    for call in (lambda: poor.get("/api/v1/nodes"), lambda: list(poor.watch("/api/v1/nodes", "1", 1))):
        with pytest.raises(ClientError, match=r'cannot (list|watch) resource "nodes"') as caught:
            call()
        assert (caught.value.kind, caught.value.status) == ("forbidden", 403)


def test_a_server_that_we_do_not_trust(tmp_path: Path, client: KubeClient) -> None:
    if not client.host.startswith("https://"):
        pytest.skip("this cluster is not served over TLS")
    untrusting = KubeClient(derived(tmp_path, cluster={}), CONTEXT, 5, 10)
    with pytest.raises(ClientError, match="certificate verify failed") as caught:
        untrusting.get("/version")
    assert caught.value.kind == "unreachable"
