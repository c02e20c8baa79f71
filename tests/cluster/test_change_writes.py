"""What a write comes to on a real API server: it lands on the version that was seen or not at all, what is stored is
what was planned, and its undo leaves the object as it was.
"""

from __future__ import annotations

import pytest
from kubernetes.client import ApiClient, CustomObjectsApi

from apps.changes.patching import edited_fields, reverse
from apps.changes.specs import ObjectSeen
from worker.clients.errors import CONFLICT, REFUSED, ClientError
from worker.clients.writes import FIELD_MANAGER, Served
from worker.parsers.kinds import KINDS

from .access import require_cluster
from .verdicts import Bed, Operations, Row, our_verdict, rows

require_cluster()
pytestmark = pytest.mark.cluster
ALONE = True
GOES = [row for row in rows("verdicts.yaml") if row.patch is None and not row.ours]
VOLCANO_GOES = [row for row in rows("volcano.yaml") if row.patch is None and not row.ours and not row.command]
NOMINAL = "/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota"


def nominal(value: str) -> Operations:
    return [{"op": "replace", "path": NOMINAL, "value": value}]


def written(bed: Bed, seen: ObjectSeen, operations: Operations) -> Served:
    """Status writes of controllers move the version without touching the spec."""
    for _turn in range(5):
        live = bed.writer.read(seen.path)
        try:
            return bed.writer.patch(seen.path, operations, resource_version=live.resource_version)
        except ClientError as error:
            if error.kind != CONFLICT:
                raise
    raise AssertionError(f"{seen.path} is never the same for long")


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_version_that_is_gone_is_not_written_to(beds: list[Bed], writer: ApiClient, dry_run: bool) -> None:
    for bed in beds:
        seen = bed.seen("alone")
        kind = KINDS["ClusterQueue"]
        touched = {"metadata": {"labels": {"touched": f"{bed.version}-{dry_run}"}}}
        CustomObjectsApi(writer).patch_cluster_custom_object(
            kind.group, bed.version, kind.plural, seen.name, touched
        )
        with pytest.raises(ClientError) as caught:
            bed.writer.patch(seen.path, nominal("1"), resource_version=seen.resource_version, dry_run=dry_run)
        assert (caught.value.kind, caught.value.status, caught.value.is_verdict) == (CONFLICT, 409, True)
        assert "the object has been modified" in caught.value.said
        assert bed.seen("alone").spec == seen.spec


def test_an_unknown_field_is_refused_not_dropped(beds: list[Bed]) -> None:
    for bed in beds:
        theirs = bed.try_out(bed.seen("alone"), [{"op": "add", "path": "/spec/nominal", "value": "8"}])
        assert (theirs.status, "unknown field" in theirs.said) == (422, True)
        seen = bed.seen("alone")
        with pytest.raises(ClientError) as caught:
            written(bed, seen, [{"op": "add", "path": "/spec/nominal", "value": "8"}])
        assert caught.value.kind == REFUSED


def test_what_is_written_in_one_version_is_read_in_the_other(beds: list[Bed]) -> None:
    for place, bed in enumerate(beds):
        value = str(20 + place)
        found = written(bed, bed.seen("top"), nominal(value))
        managers = {entry["manager"] for entry in found.obj["metadata"]["managedFields"]}
        assert FIELD_MANAGER in managers
        for other in beds:
            (group,) = other.seen("top").spec["resourceGroups"]
            assert group["flavors"][0]["resources"][0]["nominalQuota"] == value


def there_and_back(bed: Bed, row: Row) -> None:
    objects = bed.around(row.on)
    seen = objects[bed.key(row.on)]
    ours = our_verdict(row, seen, objects, bed.stage.prefix)
    assert ours.step is not None
    after = ours.step.after
    stored = written(bed, seen, ours.operations)
    assert edited_fields(after, stored.spec) == ()
    undo = reverse(seen.spec, after, stored.spec)
    assert written(bed, seen, undo).spec == seen.spec


@pytest.mark.parametrize("row", GOES, ids=[f"{row.on}: {row.words}" for row in GOES])
def test_what_is_stored_is_what_was_planned_and_the_undo_is_exact(beds: list[Bed], row: Row) -> None:
    for bed in beds:
        there_and_back(bed, row)


@pytest.mark.parametrize("row", VOLCANO_GOES, ids=[f"{row.on}: {row.words}" for row in VOLCANO_GOES])
def test_so_it_is_with_volcano(volcano_bed: Bed, row: Row) -> None:
    there_and_back(volcano_bed, row)
