"""The ConfigMap of Volcano's scheduler: one object by its name, read with Volcano's kinds."""

from __future__ import annotations

from typing import Any

import pytest

from apps.observations.models import ClusterObject, Quarantine

from .conftest import Pull
from .minicluster import MiniCluster

NAME = "volcano-scheduler-configmap"
PATH = f"/api/v1/namespaces/volcano-system/configmaps/{NAME}"
KEY = "volcano-scheduler.conf"
PROPORTION = (
    "actions: enqueue, allocate\ntiers:\n- plugins: [{name: gang}]\n- plugins: [{name: proportion}]\n"
)
CAPACITY = PROPORTION.replace("proportion", "capacity")
BROKEN = "actions: [enqueue"
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _volcano(api: MiniCluster) -> None:
    api.groups["scheduling.volcano.sh"] = {"v1beta1": ("queues", "podgroups")}


def put(api: MiniCluster, text: str, *, uid: str = "conf", name: str = NAME) -> None:
    api.put("configmaps", name, "volcano-system", uid=uid, data={KEY: text})


def known(field: str = "plugin") -> list[Any]:
    rows = ClusterObject.objects.filter(kind="VolcanoScheduler", gone_at=None)
    return [spec[field] for spec in rows.values_list("spec", flat=True)]


def asked(api: MiniCluster) -> list[str]:
    return [path for path in api.requests if "configmaps" in path]


def test_it_is_one_get_of_one_object_and_follows_an_edit(api: MiniCluster, pull: Pull) -> None:
    put(api, PROPORTION)
    result = pull("volcano")
    assert (result.outcome, result.error, known()) == ("ok", "", ["proportion"])
    assert asked(api) == [PATH]
    row = ClusterObject.objects.get(kind="VolcanoScheduler")
    assert (row.namespace, row.name) == ("volcano-system", NAME)
    put(api, CAPACITY)
    assert pull("volcano", 1).rows_written == 1
    assert known() == ["capacity"]


def test_nothing_is_written_while_it_is_the_same_version(api: MiniCluster, pull: Pull) -> None:
    put(api, PROPORTION)
    pull("volcano")
    result = pull("volcano", 1)
    assert (result.outcome, result.rows_written, result.objects_seen, known()) == ("ok", 0, 0, ["proportion"])
    assert asked(api) == [PATH, PATH]


def test_what_cannot_be_read_is_set_aside_and_the_last_reading_stays(api: MiniCluster, pull: Pull) -> None:
    put(api, PROPORTION)
    pull("volcano")
    put(api, BROKEN)
    result = pull("volcano", 1)
    assert (result.outcome, result.quarantined, known()) == ("partial", 1, ["proportion"])
    bad = Quarantine.objects.get(kind="VolcanoScheduler")
    assert (bad.source, bad.name) == ("volcano", f"volcano-system/{NAME}")
    assert f"{KEY}: not YAML" in bad.error
    put(api, CAPACITY)
    assert pull("volcano", 2).outcome == "ok"
    assert (known(), Quarantine.objects.exists()) == (["capacity"], False)


@pytest.mark.parametrize("code", [403, 404])
def test_absent_or_forbidden_is_not_known_and_no_fault(api: MiniCluster, pull: Pull, code: int) -> None:
    api.fault_status(NAME, code)
    result = pull("volcano")
    assert (result.outcome, known()) == ("ok", [])
    assert result.error == f"the scheduler's configuration: not known: {PATH}: {code}: scripted {code}"


@pytest.mark.parametrize("code", [403, 404])
def test_what_was_known_is_not_any_more(api: MiniCluster, pull: Pull, code: int) -> None:
    put(api, PROPORTION)
    pull("volcano")
    put(api, BROKEN)
    pull("volcano", 1)
    api.fault_status(NAME, code)
    assert pull("volcano", 2).outcome == "ok"
    assert (known(), Quarantine.objects.exists()) == ([], False)
    del api.faults[NAME]
    put(api, PROPORTION)
    assert pull("volcano", 3).error == ""
    assert known() == ["proportion"]


def test_one_made_anew_takes_the_place_of_the_old_one(api: MiniCluster, pull: Pull) -> None:
    put(api, PROPORTION)
    pull("volcano")
    api.delete("configmaps", "conf")
    put(api, CAPACITY, uid="second")
    pull("volcano", 1)
    assert known() == ["capacity"]


@pytest.mark.parametrize(("code", "kind"), [(500, "server_error"), (401, "unauthorized")])
def test_any_other_failure_is_a_fault_and_what_is_known_stays(
    api: MiniCluster, pull: Pull, code: int, kind: str
) -> None:
    put(api, PROPORTION)
    pull("volcano")
    api.fault_status(NAME, code)
    result = pull("volcano", 1)
    assert (result.outcome, result.error_kind, known()) == ("partial", kind, ["proportion"])
    assert "VolcanoScheduler" in result.error


def test_an_answer_that_is_no_object_is_a_fault(api: MiniCluster, pull: Pull) -> None:
    api.fault_truncated(NAME)
    result = pull("volcano")
    assert (result.outcome, result.error_kind, known()) == ("partial", "bad_body", [])


def test_a_cluster_without_volcano_is_not_asked(api: MiniCluster, pull: Pull) -> None:
    put(api, PROPORTION)
    pull("volcano")
    del api.groups["scheduling.volcano.sh"]
    api.requests.clear()
    for minute in (3, 5):
        pull("volcano", minute)
    assert (asked(api), known()) == ([], [])


def test_namespace_and_name_are_a_setting(api: MiniCluster, pull: Pull, settings: Any) -> None:
    put(api, PROPORTION)
    pull("volcano")
    settings.VOLCANO_CONFIGMAP = ("batch", "mine")
    put(api, CAPACITY, uid="other", name="mine")
    pull("volcano", 1)
    assert asked(api)[-1] == "/api/v1/namespaces/batch/configmaps/mine"
    assert known() == ["capacity"]
