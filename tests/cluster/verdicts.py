"""Edits with what they come to, ours and the server's: read from a file of expectations, tried on live objects.

Input: tests/data/changes/verdicts.yaml, a stage and the version of the API that is spoken; output: for each edit our
refusals (of the edit language, of the check, of the rules for what a careless client would send) and the server's
answer to the very patch that a plan would send, with dryRun. Invariant: nothing that is tried here stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from apps.changes.checks import CheckInput, run
from apps.changes.edits import ChangeError, Edit, ObjectKey, parse_edits
from apps.changes.laying import parent_field
from apps.changes.planning import goals_of, plan
from apps.changes.rules import broken
from apps.changes.specs import ObjectSeen, object_seen
from apps.changes.tests.json_patch import apply_patch
from worker.clients.errors import ClientError
from worker.clients.writes import KubeWriter
from worker.parsers.kinds import KINDS

from .stage import Stage

FILE = Path(__file__).parents[1] / "data" / "changes" / "verdicts.yaml"
VERSIONS = ("v1beta2", "v1beta1")
ACCEPTED = 200
Operations = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Row:
    """One edit. `wanted`: what the edit sets, None where the language has no words for it; `ours`: code → field of
    what the language or the check refuses; `warns`: of what it warns, at least; `patch`: for a server that is asked
    all the same, `rules`: what our rules say of it; `stricter`: why we refuse what the server takes; `versions`: those
    in which the server has a verdict."""

    words: str
    on: str
    wanted: dict[str, Any] | None = None
    ours: Mapping[str, str] = field(default_factory=dict)
    warns: Mapping[str, str] = field(default_factory=dict)
    patch: Operations | None = None
    rules: frozenset[str] = frozenset()
    server: int = ACCEPTED
    says: str = ""
    stricter: str = ""
    versions: tuple[str, ...] = VERSIONS

    @property
    def codes(self) -> frozenset[str]:
        return self.rules | frozenset(self.ours)


def rows() -> tuple[Row, ...]:
    return tuple(
        Row(
            words=line["words"],
            on=line["on"],
            wanted=line.get("set"),
            ours=line.get("ours", {}),
            warns=line.get("warns", {}),
            patch=line.get("patch"),
            rules=frozenset(line.get("rules", ())),
            server=line.get("server", ACCEPTED),
            says=line.get("says", ""),
            stricter=line.get("stricter", ""),
            versions=tuple(line.get("versions", VERSIONS)),
        )
        for line in _file()["rows"]
    )


def _file() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return found


def filled(value: Any, names: Mapping[str, str]) -> Any:
    """`value` with every "{name}" in its texts replaced."""
    if isinstance(value, dict):
        return {key: filled(inner, names) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, names) for inner in value]
    if isinstance(value, str):
        for name, text in names.items():
            value = value.replace("{" + name + "}", text)
    return value


# ---- the objects ----------------------------------------------------------------------------------------------------


def make_objects(stage: Stage) -> dict[str, str]:
    """Every object of the file, and its kind by its short name."""
    kinds: dict[str, str] = {}
    for short, line in _file()["objects"].items():
        spec = filled(line.get("spec"), {"p": stage.prefix})
        if "sizes" in line:
            spec = {"resourceGroups": _sized(line["sizes"])}
        stage.make(line["kind"], short, spec)
        kinds[short] = line["kind"]
    return kinds


def _sized(sizes: list[dict[str, int]]) -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = []
    flavors = resources = 0
    for size in sizes:
        for _group in range(size["groups"]):
            covered = [f"r{resources + n}" for n in range(1, size["resources"] + 1)]
            names = [f"f{flavors + n}" for n in range(1, size["flavors"] + 1)]
            cells = [{"name": name, "nominalQuota": "8"} for name in covered]
            groups.append(
                {
                    "coveredResources": covered,
                    "flavors": [{"name": name, "resources": cells} for name in names],
                }
            )
            flavors, resources = flavors + len(names), resources + len(covered)
    return groups


# ---- verdicts -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ours:
    """`operations`: the patch that goes to the server."""

    refusals: Mapping[str, str]
    warnings: Mapping[str, str]
    rules: frozenset[str]
    operations: Operations

    @property
    def refuses(self) -> bool:
        return bool(self.refusals or self.rules)


@dataclass(frozen=True, slots=True)
class Theirs:
    status: int
    said: str

    @property
    def refuses(self) -> bool:
        return self.status != ACCEPTED


class Bed:
    """The objects in one version of the API."""

    def __init__(self, stage: Stage, writer: KubeWriter, kinds: Mapping[str, str], version: str) -> None:
        self.stage, self.writer, self.kinds, self.version = stage, writer, kinds, version

    def key(self, short: str) -> ObjectKey:
        kind = self.kinds[short]
        return kind, self.stage.namespace if kind == "LocalQueue" else "", self.stage.name(short)

    def seen(self, short: str, version: str = "") -> ObjectSeen:
        """The object as it is now."""
        key = self.key(short)
        kind = KINDS[key[0]]
        where = f"/namespaces/{key[1]}" if key[1] else ""
        path = f"/apis/{kind.group}/{version or self.version}{where}/{kind.plural}/{key[2]}"
        return object_seen(key[0], path, self.writer.read(path).obj)

    def verdicts(self, row: Row) -> tuple[Ours, Theirs]:
        """Controllers write the status of these objects meanwhile: what was seen is then read again."""
        for _turn in range(5):
            seen = self.seen(row.on)
            ours = our_verdict(row, seen, self.stage.prefix)
            theirs = self.try_out(seen, ours.operations)
            if theirs.status != 409:
                return ours, theirs
        raise AssertionError(f"{row.on} is never the same for long")

    def try_out(self, seen: ObjectSeen, operations: Operations) -> Theirs:
        try:
            self.writer.patch(seen.path, operations, resource_version=seen.resource_version, dry_run=True)
        except ClientError as error:
            if not error.is_verdict:
                raise
            return Theirs(error.status, error.said)
        return Theirs(ACCEPTED, "")


def edit_of(seen: ObjectSeen, wanted: dict[str, Any]) -> dict[str, Any]:
    namespace = {"namespace": seen.namespace} if seen.kind == "LocalQueue" else {}
    return {"kind": seen.kind, "name": seen.name, **namespace, "set": wanted}


def our_verdict(row: Row, seen: ObjectSeen, prefix: str) -> Ours:
    refusals: dict[str, str] = {}
    warnings: dict[str, str] = {}
    edits: tuple[Edit, ...] = ()
    if row.wanted is not None:
        try:
            edits = parse_edits([edit_of(seen, filled(row.wanted, {"p": prefix}))])
        except ChangeError as error:
            refusals = {fault.code: fault.field for fault in error.faults}
    if edits:
        report = run(CheckInput(edits, {seen.key: seen}))
        refusals = {found.code: found.field for found in report.refusals}
        warnings = {found.code: found.field for found in report.warnings}
    if row.patch is None:
        objects = {seen.key: seen}
        (step,) = plan(objects, goals_of(objects, edits))
        assert isinstance(step.body, list)
        return Ours(refusals, warnings, frozenset(), step.body)
    names = {"p": prefix, "parent": parent_field(seen.kind, seen.spec, seen.api_version)}
    operations: Operations = filled(row.patch, names)
    after = apply_patch({"spec": seen.spec}, operations)["spec"]
    rules = frozenset(found.code for found in broken(seen.kind, seen.spec, after, seen.api_version))
    return Ours(refusals, warnings, rules, operations)
