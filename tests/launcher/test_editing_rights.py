"""docs/rbac-edit.yaml grants what changing a quota writes, no more and no less, to the account of docs/rbac.yaml."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from apps.changes.edits import ChangeError, parse_edits
from apps.changes.planning import COMMANDS_PATH
from worker.clients.writes import KubeWriter
from worker.parsers.kinds import KINDS

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "rbac-edit.yaml").read_text()
Grant = tuple[str, str, str]
"""(API group, resource, verb)."""


def objects(text: str) -> list[dict[str, Any]]:
    return [found for found in yaml.safe_load_all(text) if found]


def one(kind: str, text: str = TEXT) -> dict[str, Any]:
    (found,) = (each for each in objects(text) if each["kind"] == kind)
    return found


def grants(role: dict[str, Any]) -> list[Grant]:
    """What its rules give on every object; a rule that says more than this does not pass."""
    found = []
    for rule in role["rules"]:
        assert rule.keys() == {"apiGroups", "resources", "verbs"}
        found += [
            (group, resource, verb)
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        ]
    return sorted(found)


def is_editable(kind: str) -> bool:
    """Whether a change request may name the kind: whatever else is wrong with the edit, it is not that."""
    with pytest.raises(ChangeError) as caught:
        parse_edits([{"kind": kind}])
    return "edits.0.kind" not in {fault.field for fault in caught.value.faults}


def optional() -> str:
    """The part that is commented out, as it is when it is not."""
    lines = TEXT.splitlines()
    return "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines[lines.index("# ---") :])


def test_what_a_writer_does_is_read_patch_and_create() -> None:
    """A new way of writing needs a new verb here."""
    assert {name for name in vars(KubeWriter) if not name.startswith("_")} == {"read", "patch", "create"}


def test_objects_are_created_at_one_path_only() -> None:
    made = []
    for path in (ROOT / "worker").rglob("*.py"):
        if "tests" not in path.parts:
            made += re.findall(r"writer\.create\(\s*(\w+)", path.read_text())
    assert set(made) == {"COMMANDS_PATH"}


def test_the_kinds_that_a_request_may_name_are_patched() -> None:
    wanted = [kind for name, kind in KINDS.items() if is_editable(name)]
    assert len(wanted) == 4
    assert grants(one("ClusterRole")) == sorted(
        (kind.group, kind.plural, verb) for kind in wanted for verb in ("get", "patch")
    )


def test_commands_are_created_in_their_namespace_only() -> None:
    _, _, group, _version, _, namespace, resource = COMMANDS_PATH.split("/")
    role = one("Role")
    assert grants(role) == [(group, resource, "create")]
    assert role["metadata"]["namespace"] == one("RoleBinding")["metadata"]["namespace"] == namespace


def test_there_are_two_roles_and_their_bindings_and_nothing_else() -> None:
    kinds = sorted(each["kind"] for each in objects(TEXT))
    assert kinds == ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]


@pytest.mark.parametrize(
    ("role", "binding", "text"),
    [
        ("ClusterRole", "ClusterRoleBinding", TEXT),
        ("Role", "RoleBinding", TEXT),
        ("ClusterRole", "ClusterRoleBinding", optional()),
    ],
    ids=["editing", "commands", "impersonation"],
)
def test_a_role_is_bound_to_the_account_that_reads(role: str, binding: str, text: str) -> None:
    bound, reader = one(binding, text), (ROOT / "docs" / "rbac.yaml").read_text()
    name = one(role, text)["metadata"]["name"]
    assert bound["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name}
    assert bound["subjects"] == one("ClusterRoleBinding", reader)["subjects"]


def test_what_is_optional_names_the_people_and_is_a_role_of_its_own() -> None:
    """Who approves gets the editing roles, and must not get with them the right to act as others."""
    (rule,) = one("ClusterRole", optional())["rules"]
    assert rule.pop("resourceNames")
    assert rule == {"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]}
    assert one("ClusterRole", optional())["metadata"]["name"] != one("ClusterRole")["metadata"]["name"]
