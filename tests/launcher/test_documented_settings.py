"""docs/operating.md names every variable that something reads, with the default and range that the code has, and
none besides; docs/rbac.yaml grants what is collected, no more and no less."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuportal.environment import Environment
from worker.parsers.kinds import KINDS
from worker.parsers.volcano_conf import VOLCANO_SCHEDULER

ROOT = Path(__file__).resolve().parents[2]
OPERATING = (ROOT / "docs" / "operating.md").read_text()
NAME = re.compile(r"\b(?:PORTAL_[A-Z_]+[A-Z]|DATABASE_URL|REDIS_URL|POSTGRES_PASSWORD|REDIS_PASSWORD)\b")
READERS = ("portal", "conftest.py", "docker-compose.yml", "Dockerfile", ".env.example")


def names_in(text: str) -> set[str]:
    return {name.removesuffix("_FILE") for name in NAME.findall(text)}


def read_somewhere() -> set[str]:
    files = [ROOT / name for name in READERS]
    for folder in ("gpuportal", "worker", "apps"):
        files += (ROOT / folder).rglob("*.py")
    return {name for path in files for name in names_in(path.read_text())}


def settings() -> Iterator[tuple[str, ast.Call]]:
    """(variable, call) of every `env.…("VARIABLE", …)` in the settings module."""
    for node in ast.walk(ast.parse((ROOT / "gpuportal" / "settings.py").read_text())):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "env"
        ):
            yield ast.literal_eval(node.args[0]), node


def row_of(name: str) -> list[str]:
    """The cells of the variable's row."""
    for line in OPERATING.splitlines():
        if line.startswith(f"| `{name}` |"):
            return [cell.strip() for cell in line.strip("|").split(" | ")]
    pytest.fail(f"docs/operating.md has no row for {name}")


def test_every_variable_that_is_read_is_documented_and_no_other() -> None:
    assert names_in(OPERATING) == read_somewhere()


@pytest.mark.parametrize("name", [name for name, _call in settings()])
def test_a_setting_has_a_row_with_a_meaning(name: str) -> None:
    assert all(row_of(name))
    assert len(row_of(name)) == 4


@pytest.mark.parametrize(("name", "call"), [(n, c) for n, c in settings() if c.func.attr == "integer"])  # type: ignore[attr-defined]
def test_a_number_is_documented_with_its_default_and_range(name: str, call: ast.Call) -> None:
    limits = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    _name, default, allowed, _meaning = row_of(name)
    assert default == f"`{ast.literal_eval(call.args[1])}`"
    assert allowed.startswith(f"{limits['low']}–{limits['high']} ")


@pytest.mark.parametrize(("name", "call"), [(n, c) for n, c in settings() if c.func.attr == "choice"])  # type: ignore[attr-defined]
def test_a_choice_is_documented_with_its_default_and_options(name: str, call: ast.Call) -> None:
    _name, default, allowed, _meaning = row_of(name)
    assert default == f"`{ast.literal_eval(call.args[1])}`"
    assert set(re.findall(r"`([^`]+)`", allowed)) == ast.literal_eval(call.args[2])


@pytest.mark.parametrize(("name", "call"), [(n, c) for n, c in settings() if c.func.attr == "flag"])  # type: ignore[attr-defined]
def test_a_flag_is_documented_with_its_default(name: str, call: ast.Call) -> None:
    assert row_of(name)[1] == f"`{int(ast.literal_eval(call.args[1]))}`"


@pytest.mark.parametrize(("name", "call"), [(n, c) for n, c in settings() if c.func.attr == "rate"])  # type: ignore[attr-defined]
def test_a_rate_is_documented_with_its_default(name: str, call: ast.Call) -> None:
    default = row_of(name)[1].strip("`")
    assert Environment({name: default}).rate(name, None) == ast.literal_eval(call.args[1])


# ------------------------------------------------------------------ rights in a cluster
def manifest() -> dict[str, dict[str, Any]]:
    """The objects of docs/rbac.yaml by kind."""
    objects = list(yaml.safe_load_all((ROOT / "docs" / "rbac.yaml").read_text()))
    found = {each["kind"]: each for each in objects}
    assert len(found) == len(objects)
    return found


def test_the_cluster_role_reads_exactly_the_kinds_that_are_collected() -> None:
    granted: list[tuple[str, str]] = []
    for rule in manifest()["ClusterRole"]["rules"]:
        if rule["apiGroups"] == ["visibility.kueue.x-k8s.io"]:
            assert rule["resources"] == ["clusterqueues/pendingworkloads"]
            assert rule["verbs"] == ["get"]
            continue
        if rule["resources"] == [VOLCANO_SCHEDULER.plural]:
            # of config maps the one that is collected, and never a list of them
            default = row_of("PORTAL_VOLCANO_CONFIGMAP")[1].strip("`")
            names = {"resourceNames": [default.partition("/")[2]], "verbs": ["get"]}
            assert rule == {"apiGroups": [""], "resources": ["configmaps"], **names}
            continue
        assert rule["verbs"] == ["get", "list", "watch"]
        assert rule.keys() == {"apiGroups", "resources", "verbs"}
        granted += [(group, resource) for group in rule["apiGroups"] for resource in rule["resources"]]
    assert sorted(granted) == sorted((kind.group, kind.plural) for kind in KINDS.values())


def test_the_cluster_role_is_bound_to_the_account_that_the_token_is_of() -> None:
    objects = manifest()
    role, account, secret = (
        objects[kind]["metadata"] for kind in ("ClusterRole", "ServiceAccount", "Secret")
    )
    binding = objects["ClusterRoleBinding"]
    assert binding["roleRef"]["name"] == role["name"]
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}
    ]
    assert secret["annotations"] == {"kubernetes.io/service-account.name": account["name"]}
    assert {account["namespace"], secret["namespace"]} == {objects["Namespace"]["metadata"]["name"]}
