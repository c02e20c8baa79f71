"""Kueue's Active message taken apart. The messages are those of Kueue 0.17's own format strings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.quotas.conditions import causes_of

LEAD = "Can't admit new workloads: "
FULL = (
    f"{LEAD}is stopped, references missing ResourceFlavor(s): spot,h200, references missing AdmissionCheck(s): a,b,"
    ' references inactive AdmissionCheck(s): c, there is no Topology "rack" for TAS flavor "tas-h100".'
)


def test_every_cause_is_named_with_its_objects() -> None:
    assert [(cause.code, cause.names) for cause in causes_of(FULL)] == [
        ("stopped", ()),
        ("flavor_missing", ("spot", "h200")),
        ("check_missing", ("a", "b")),
        ("check_inactive", ("c",)),
        ("topology_missing", ("rack", "tas-h100")),
    ]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (
            "Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, found: x,y",
            "multikueue_twice",
        ),
        ("Cannot specify MultiKueue AdmissionCheck per flavor, found: x", "multikueue_per_flavor"),
        (
            "Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks on the same ClusterQueue, found: x",
            "multikueue_provisioning",
        ),
    ],
)
def test_multikueue_causes(message: str, code: str) -> None:
    assert [cause.code for cause in causes_of(f"{LEAD}{message}.")] == [code]


@pytest.mark.parametrize("message", ["", "   "])
def test_no_message_has_no_cause(message: str) -> None:
    assert causes_of(message) == []


def test_a_text_that_we_do_not_know_is_one_cause() -> None:
    (cause,) = causes_of("The ClusterQueue is terminating; clean up is in progress.")
    assert (cause.code, cause.text) == ("other", "The ClusterQueue is terminating; clean up is in progress")


CAUSES = (
    "is stopped",
    "references missing ResourceFlavor(s): a,b",
    "references inactive AdmissionCheck(s): c",
    'there is no Topology "t" for TAS flavor "f"',
    "something that a later version says, with a comma",
)


@given(st.lists(st.sampled_from(CAUSES[:4]), min_size=1, unique=True))
def test_the_causes_joined_are_the_message(parts: list[str]) -> None:
    found = causes_of(f"{LEAD}{', '.join(parts)}.")
    assert [cause.text for cause in found] == parts


def test_an_unknown_cause_between_known_ones_is_kept() -> None:
    found = causes_of(f"{LEAD}{CAUSES[0]}, {CAUSES[4]}, {CAUSES[1]}.")
    assert ", ".join(cause.text for cause in found) == f"{CAUSES[0]}, {CAUSES[4]}, {CAUSES[1]}"
    assert found[-1].names == ("a", "b")
