"""Edits with what they come to, ours and the server's: read from a file of expectations, tried on live objects.

Input: a file of tests/data/changes, a stage and the version of the API that is spoken; output: for each edit our
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
from apps.changes.planning import PlannedStep, goals_of, plan
from apps.changes.rules import broken
from apps.changes.rules_volcano import broken_volcano
from apps.changes.specs import ObjectSeen, object_seen
from apps.changes.tests.json_patch import apply_patch
from worker.clients.errors import ClientError
from worker.clients.writes import KubeWriter
from worker.parsers.kinds import KINDS

from .stage import VOLCANO, Stage

DATA = Path(__file__).parents[1] / "data" / "changes"
VERSIONS = ("v1beta2", "v1beta1")
ACCEPTED = 200
Operations = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Row:
    """One edit. `wanted`: what the edit sets, None where the language has no words for it; `ours`: code → field of
    what the language or the check refuses; `warns`: of what it warns, at least; `patch`: for a server that is asked
    all the same, `rules`: what our rules say of it; `stricter`: why we refuse what the server takes; `versions`: those
    in which the server has a verdict; `webhook`: why a server refuses on which the webhook runs; `command`: opens or
    closes the queue."""

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
    webhook: str = ""
    command: str = ""

    @property
    def codes(self) -> frozenset[str]:
        return self.rules | frozenset(self.ours)


def rows(file: str) -> tuple[Row, ...]:
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
            webhook=line.get("webhook", ""),
            command=line.get("command", ""),
        )
        for line in _read(file)["rows"]
    )


def _read(file: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DATA / file).read_text(encoding="utf-8"))
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


def make_objects(stage: Stage, file: str) -> dict[str, str]:
    """Every object of the file, and its kind by its short name."""
    kinds: dict[str, str] = {}
    for short, line in _read(file)["objects"].items():
        spec = filled(line.get("spec"), {"p": stage.prefix})
        if line["kind"] == "VolcanoQueue":
            stage.volcano_queue(short, spec, line.get("state", ""))
        elif "sizes" in line:
            stage.make(line["kind"], short, {"resourceGroups": _sized(line["sizes"])})
        else:
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
    """`operations`: the patch that goes to the server, of `step` where one is planned."""

    refusals: Mapping[str, str]
    warnings: Mapping[str, str]
    rules: frozenset[str]
    operations: Operations
    step: PlannedStep | None = None

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

    @property
    def words(self) -> str:
        return f"refused {self.status}" if self.refuses else "goes"


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
        version = version or (self.version if key[0] != "VolcanoQueue" else VOLCANO[1])
        path = f"/apis/{kind.group}/{version}{where}/{kind.plural}/{key[2]}"
        return object_seen(key[0], path, self.writer.read(path).obj)

    def around(self, short: str) -> dict[ObjectKey, ObjectSeen]:
        """The object, with its relatives where the rules look at them."""
        of_volcano = self.kinds[short] == "VolcanoQueue"
        found = [self.seen(other) for other in (self.kinds if of_volcano else (short,))]
        return {seen.key: seen for seen in found}

    def verdicts(self, row: Row) -> tuple[Ours, Theirs]:
        """Controllers write the status of these objects meanwhile: what was seen is then read again."""
        for _turn in range(5):
            objects = self.around(row.on)
            seen = objects[self.key(row.on)]
            ours = our_verdict(row, seen, objects, self.stage.prefix)
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


def our_verdict(row: Row, seen: ObjectSeen, objects: Mapping[ObjectKey, ObjectSeen], prefix: str) -> Ours:
    refusals: dict[str, str] = {}
    warnings: dict[str, str] = {}
    edits: tuple[Edit, ...] = ()
    if row.wanted is not None:
        try:
            edits = parse_edits([edit_of(seen, filled(row.wanted, {"p": prefix}))])
        except ChangeError as error:
            refusals = {fault.code: fault.field for fault in error.faults}
    if edits:
        report = run(CheckInput(edits, objects))
        refusals = {found.code: found.field for found in report.refusals}
        warnings = {found.code: found.field for found in report.warnings}
    if row.patch is None:
        (step,) = plan(objects, goals_of(objects, edits))
        return Ours(refusals, warnings, frozenset(), step.body if isinstance(step.body, list) else [], step)
    names = {"p": prefix, "parent": parent_field(seen.kind, seen.spec, seen.api_version)}
    operations: Operations = filled(row.patch, names)
    after = apply_patch({"spec": seen.spec}, operations)["spec"]
    if seen.kind == "VolcanoQueue":
        specs = {key[2]: other.spec for key, other in objects.items()}
        found = broken_volcano(seen.name, seen.spec, {**specs, seen.name: after})
    else:
        found = broken(seen.kind, seen.spec, after, seen.api_version)
    return Ours(refusals, warnings, frozenset(one.code for one in found), operations)


# ---- the table ------------------------------------------------------------------------------------------------------


def in_words(row: Row, ours: Ours) -> str:
    if ours.refusals:
        return "refused: " + ", ".join(f"{code} at {where}" for code, where in ours.refusals.items())
    if ours.rules:
        return "cannot be asked for; rules: " + ", ".join(sorted(ours.rules))
    return "goes, warned: " + ", ".join(row.warns) if row.warns else "goes"


def line_of(row: Row, ours: Ours, theirs: Theirs) -> tuple[str, str, str, str]:
    """edit, our verdict, the server's, its words."""
    said = " ".join((theirs.said or row.stricter or row.webhook).split())
    if row.webhook and not theirs.refuses:
        return f"{row.on}: {row.words}", in_words(row, ours), "no webhook here", said
    return f"{row.on}: {row.words}", in_words(row, ours), theirs.words, said
