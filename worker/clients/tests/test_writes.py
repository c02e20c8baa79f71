"""KubeWriter against the simulated cluster, whose refusals are word for word those of a real one with Kueue, and
against a scripted server for what the simulated one does not answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from simcluster.testing import Running, running
from worker.clients.errors import ClientError
from worker.clients.kube import KubeClient
from worker.clients.tests.servers import Config, Handler, serving
from worker.clients.writes import KubeWriter, Served

RECORDED = Path(__file__).resolve().parents[3] / "tests" / "data" / "kueue"
PATH = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/team-a-cq"
GPU = "/spec/resourceGroups/0/flavors/0/resources/2"
COMMANDS = "/apis/bus.volcano.sh/v1alpha1/namespaces/default/commands"


@pytest.fixture
def sim() -> Iterator[Running]:
    with running(recordings=RECORDED) as found:
        yield found


@pytest.fixture
def writer(sim: Running) -> KubeWriter:
    return KubeWriter(KubeClient(str(sim.kubeconfig), "demo", 1.0, 2.0))


def fails(call: Callable[[], Any]) -> ClientError:
    with pytest.raises(ClientError) as caught:
        call()
    return caught.value


def nominal(value: str) -> list[dict[str, Any]]:
    return [{"op": "replace", "path": f"{GPU}/nominalQuota", "value": value}]


def patched(writer: KubeWriter, value: str, *, version: str = "", dry_run: bool = False) -> Served:
    seen = version or writer.read(PATH).resource_version
    return writer.patch(PATH, nominal(value), resource_version=seen, dry_run=dry_run)


def nominal_in(found: Served) -> str:
    return str(found.spec["resourceGroups"][0]["flavors"][0]["resources"][2]["nominalQuota"])


def test_a_patch_changes_the_field_and_gives_the_version_after_it(writer: KubeWriter) -> None:
    before = writer.read(PATH)
    after = patched(writer, "12")
    assert nominal_in(after) == "12"
    assert after.uid == before.uid
    assert int(after.resource_version) > int(before.resource_version)
    assert writer.read(PATH) == after


def test_a_dry_run_answers_as_the_write_would_and_writes_nothing(writer: KubeWriter) -> None:
    before = writer.read(PATH)
    assert nominal_in(patched(writer, "12", dry_run=True)) == "12"
    assert writer.read(PATH) == before


@pytest.mark.parametrize("dry_run", [False, True])
def test_another_version_than_the_one_seen_is_a_conflict_and_nothing_is_written(
    writer: KubeWriter, dry_run: bool
) -> None:
    seen = writer.read(PATH).resource_version
    outside = patched(writer, "9")
    error = fails(lambda: patched(writer, "12", version=seen, dry_run=dry_run))
    assert (error.kind, error.status, error.is_verdict) == ("conflict", 409, True)
    assert writer.read(PATH) == outside


@pytest.mark.parametrize(
    ("value", "file", "status"),
    [("-1", "cq-403-negative-quota.json", 403), ("eight", "cq-422-bad-quantity.json", 422)],
)
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_refusal_is_a_verdict_with_the_servers_own_words(
    writer: KubeWriter, value: str, file: str, status: int, dry_run: bool
) -> None:
    """Longer than the one line that is shown of other errors: nothing of it is cut."""
    before = writer.read(PATH)
    error = fails(lambda: patched(writer, value, dry_run=dry_run))
    assert (error.status, error.is_verdict) == (status, True)
    assert error.said == json.loads((RECORDED / file).read_text())["message"]
    assert writer.read(PATH) == before


def test_who_may_only_read_is_told_so(sim: Running, writer: KubeWriter) -> None:
    reader = KubeWriter(KubeClient(str(sim.kubeconfig), "viewer", 1.0, 2.0))
    error = fails(lambda: patched(reader, "12"))
    assert (error.kind, error.status, error.is_verdict) == ("forbidden", 403, True)
    assert 'cannot patch resource "clusterqueues"' in error.said


def test_an_object_that_is_gone_is_a_verdict(writer: KubeWriter) -> None:
    error = fails(lambda: writer.patch(f"{PATH}-gone", nominal("1"), resource_version="1"))
    assert (error.kind, error.status, error.is_verdict) == ("not_found", 404, True)


def test_a_webhook_that_is_down_leaves_the_write_open(sim: Running, writer: KubeWriter) -> None:
    said = json.loads((RECORDED / "kueue-down-500-patch.json").read_text())["message"]
    sim.faults.add("ClusterQueue", "patch", status=500, message=said)
    error = fails(lambda: patched(writer, "12"))
    assert (error.kind, error.status, error.is_verdict) == ("server_error", 500, False)
    assert error.said == said


def test_a_short_429_is_asked_once_more_and_a_long_one_is_no_verdict(
    sim: Running, writer: KubeWriter
) -> None:
    sim.faults.add("ClusterQueue", "patch", status=429, retry_after=1, times=1)
    assert nominal_in(patched(writer, "12")) == "12"
    sim.faults.add("ClusterQueue", "patch", status=429, retry_after=30)
    error = fails(lambda: patched(writer, "13"))
    assert (error.kind, error.retry_after, error.is_verdict) == ("throttled", 30.0, False)


def test_an_answer_that_is_cut_leaves_open_what_was_written_and_here_it_was(
    sim: Running, writer: KubeWriter
) -> None:
    seen = writer.read(PATH)
    sim.faults.add("ClusterQueue", "patch", cut=0.5)
    error = fails(lambda: patched(writer, "12", version=seen.resource_version))
    assert (error.status, error.is_verdict) == (0, False)
    assert nominal_in(writer.read(PATH)) == "12"


def test_a_write_in_somebodys_name_is_judged_and_logged_as_theirs() -> None:
    with running(recordings=RECORDED, editors=("zhang",)) as sim:
        client = KubeClient(str(sim.kubeconfig), "demo", 1.0, 2.0)
        assert nominal_in(patched(KubeWriter(client, "zhang"), "12")) == "12"
        error = fails(lambda: patched(KubeWriter(client, "wang"), "13"))
        assert (error.kind, error.status, error.is_verdict) == ("forbidden", 403, True)
        assert 'User "wang" cannot patch resource "clusterqueues"' in error.message
        assert nominal_in(patched(KubeWriter(client), "14")) == "14"
        named = [event.get("impersonatedUser", {}).get("username") for event in sim.audit.events()]
    assert named == ["zhang", "wang", None]


# ------------------------------------------------------------------ what is sent
def test_what_is_sent_names_the_version_the_manager_and_for_whom(tmp_path: Path) -> None:
    bodies: list[Any] = []

    def answer(handler: Handler) -> None:
        bodies.append(json.loads(handler.form))
        handler.reply(b'{"metadata":{"name":"q","uid":"u","resourceVersion":"8"},"spec":{}}')

    with serving(answer) as server:
        client = KubeClient(Config(server.url).write(tmp_path), "", 1.0, 2.0)
        KubeWriter(client, "alice").patch(PATH, nominal("12"), resource_version="7", dry_run=True)
        KubeWriter(client).patch(PATH, nominal("12"), resource_version="7")
        dry, real = server.seen
    version = {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}
    assert bodies == [[version, *nominal("12")]] * 2
    common = {"fieldManager": "gpu-portal", "fieldValidation": "Strict"}
    assert (dry.route, dry.query["dryRun"], real.route) == (PATH, "All", PATH)
    assert common.items() <= dry.query.items()
    assert common.items() <= real.query.items()
    assert "dryRun" not in real.query
    assert dry.headers["content-type"] == real.headers["content-type"] == "application/json-patch+json"
    assert dry.headers["impersonate-user"] == "alice"
    assert "impersonate-user" not in real.headers


def test_an_object_is_created_once(tmp_path: Path) -> None:
    """The second time the name is taken: whoever asked twice learns that the first was heard."""
    taken = (RECORDED / "create-409-exists.json").read_bytes()
    made = b'{"metadata":{"name":"c","namespace":"default","uid":"u","resourceVersion":"8"}}'
    answers = [(201, made), (409, taken)]

    def answer(handler: Handler) -> None:
        status, body = answers.pop(0)
        handler.reply(body, status=status)

    with serving(answer) as server:
        writer = KubeWriter(KubeClient(Config(server.url).write(tmp_path), "", 1.0, 2.0))
        body = {"metadata": {"name": "c"}, "action": "CloseQueue"}
        assert writer.create(COMMANDS, body).uid == "u"
        error = fails(lambda: writer.create(COMMANDS, body))
    assert (error.kind, error.status, error.is_verdict) == ("conflict", 409, True)
    assert error.said == json.loads(taken)["message"]


def test_what_a_dry_run_would_create_has_no_version(tmp_path: Path) -> None:
    """As a real API server answers it; of a creation that is meant, an answer without a version is none."""
    made = b'{"metadata":{"name":"c","namespace":"default","uid":"u"},"action":"CloseQueue"}'
    with serving(lambda handler: handler.reply(made, status=201)) as server:
        writer = KubeWriter(KubeClient(Config(server.url).write(tmp_path), "", 1.0, 2.0))
        body = {"metadata": {"name": "c"}, "action": "CloseQueue"}
        tried = writer.create(COMMANDS, body, dry_run=True)
        error = fails(lambda: writer.create(COMMANDS, body))
    assert (tried.uid, tried.resource_version) == ("u", "")
    assert (error.kind, error.is_verdict) == ("bad_body", False)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"metadata":{}}', b'{"metadata":[]}'])
def test_an_answer_that_is_no_object_is_no_verdict(tmp_path: Path, body: bytes) -> None:
    with serving(lambda handler: handler.reply(body)) as server:
        writer = KubeWriter(KubeClient(Config(server.url).write(tmp_path), "", 1.0, 2.0))
        error = fails(lambda: writer.patch(PATH, nominal("12"), resource_version="7"))
    assert (error.kind, error.is_verdict) == ("bad_body", False)
