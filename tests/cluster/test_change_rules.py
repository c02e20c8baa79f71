"""What we say of an edit before anybody is asked, and what the real API server says of the very same patch: the same,
for every rule and every field that can be edited.

The expectations were written by hand before the first run (tests/data/changes/verdicts.yaml). The table of both
verdicts is printed at the end of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from kubernetes.client import ApiClient
from kubernetes.client.exceptions import ApiException

from apps.changes.words import REFUSAL_CODES, WARNING_CODES
from worker.clients.kube import KubeClient
from worker.clients.writes import KubeWriter

from .access import require_cluster
from .conftest import KUEUE
from .stage import Stage
from .verdicts import VERSIONS, Bed, Ours, Row, Theirs, make_objects, rows

require_cluster()
pytestmark = pytest.mark.cluster
ALONE = True
ROWS = rows()
LANGUAGE = frozenset({"other_group"})
"""What only the edit language refuses: the rules have another name for what would come of it."""
NOT_HERE = frozenset({"variants_one_group", "variants_flavors", "variants_strict", "changed_since"})
"""Rules about a field that later versions of Kueue have, which no object here can hold; and what an undo alone is
refused for."""
Record = Callable[[str, object], None]


@pytest.fixture(scope="module")
def stage(writer: ApiClient, kueue: str) -> Iterator[Stage]:
    made = Stage(writer, kueue, "rules")
    try:
        made.open()
        yield made
    except ApiException as error:
        if error.status in (403, 405):
            pytest.skip(f"this cluster lets nobody make queues: {error.reason}")
        raise
    finally:
        made.clear()


@pytest.fixture(scope="module")
def kinds(stage: Stage) -> dict[str, str]:
    return make_objects(stage)


@pytest.fixture(scope="module")
def beds(stage: Stage, kinds: dict[str, str], client: KubeClient) -> list[Bed]:
    """One per version that is served, the newest first."""
    served = client.served_versions(KUEUE)
    return [Bed(stage, KubeWriter(client), kinds, version) for version in VERSIONS if version in served]


def told(record_property: Record, rule: str, ours: str, theirs: str, words: str) -> None:
    record_property("verdict", (rule, ours, theirs, " ".join(words.split())))


def in_words(row: Row, ours: Ours) -> str:
    if ours.refusals:
        return "refused: " + ", ".join(f"{code} at {where}" for code, where in ours.refusals.items())
    if ours.rules:
        return "cannot be asked for; rules: " + ", ".join(sorted(ours.rules))
    return "goes, warned: " + ", ".join(row.warns) if row.warns else "goes"


def of_server(theirs: Theirs) -> str:
    return f"refused {theirs.status}" if theirs.refuses else "goes"


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.on}: {row.words}" for row in ROWS])
def test_both_verdicts_are_the_same(beds: list[Bed], row: Row, record_property: Record) -> None:
    for place, bed in enumerate(bed for bed in beds if bed.version in row.versions):
        ours, theirs = bed.verdicts(row)
        if not place:
            told(
                record_property,
                row.words,
                in_words(row, ours),
                of_server(theirs),
                row.stricter or theirs.said,
            )
        assert (dict(ours.refusals), ours.rules) == (row.ours, row.rules), bed.version
        assert {code: ours.warnings.get(code) for code in row.warns} == row.warns
        assert theirs.status == row.server, (bed.version, theirs.said)
        assert row.says in theirs.said, bed.version
        assert ours.refuses == theirs.refuses or row.stricter, bed.version


def test_every_rule_was_provoked_and_every_field_edited() -> None:
    provoked = {code for row in ROWS for code in row.codes}
    assert provoked - LANGUAGE <= REFUSAL_CODES
    of_kueue = {code for code in REFUSAL_CODES - NOT_HERE if code not in OF_VOLCANO}
    assert of_kueue - provoked == set()
    assert {code for row in ROWS for code in row.warns} <= WARNING_CODES


OF_VOLCANO = frozenset(
    {
        "root_amounts", "root_closed", "guarantee_above_deserved", "deserved_above_capability", "own_parent",
        "no_such_parent", "too_deep", "above_ancestor", "below_descendant", "below_children", "children_above_parent",
    }
)  # fmt: skip
