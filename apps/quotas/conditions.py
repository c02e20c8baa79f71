"""All causes in the message of a queue's Active condition. Pure. Input: Kueue's message; output: `Cause`s.

Kueue stores only the first reason and joins all causes in one message (pkg/cache/scheduler/clusterqueue.go): "Can't admit
new workloads: is stopped, references missing ResourceFlavor(s): a,b, references missing AdmissionCheck(s): c."
Invariant: the causes' texts, joined, are the message: what is not recognised is a cause with code "other".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LEAD = re.compile(r"^Can't admit new workloads:\s*")
_STARTS = (
    ("stopped", r"is stopped"),
    ("flavor_missing", r"references missing ResourceFlavor\(s\)"),
    ("check_missing", r"references missing AdmissionCheck\(s\)"),
    ("check_inactive", r"references inactive AdmissionCheck\(s\)"),
    ("multikueue_twice", r"Cannot use multiple MultiKueue AdmissionChecks"),
    ("multikueue_per_flavor", r"Cannot specify MultiKueue AdmissionCheck per flavor"),
    ("multikueue_provisioning", r"Cannot use both MultiKueue and ProvisioningRequest"),
    ("topology_missing", r"there is no Topology"),
)
_SPLIT = re.compile(rf",\s*(?={'|'.join(start for _code, start in _STARTS)})")
_QUOTED = re.compile(r'"([^"]+)"')


@dataclass(frozen=True, slots=True)
class Cause:
    """`names`: the objects that the cause is about (flavors, checks; of a missing topology: topology, flavor)."""

    code: str
    text: str
    names: tuple[str, ...] = ()


def causes_of(message: str) -> list[Cause]:
    """The causes that a message names, in its order; [] for an empty message."""
    rest = _LEAD.sub("", message.strip()).removesuffix(".")
    return [_cause(text) for text in _SPLIT.split(rest) if text] if rest else []


def _cause(text: str) -> Cause:
    code = next((code for code, start in _STARTS if re.match(start, text)), "other")
    if code == "topology_missing":
        return Cause(code, text, tuple(_QUOTED.findall(text)))
    _head, colon, tail = text.partition(": ")
    if code == "other" or not colon:
        return Cause(code, text)
    return Cause(code, text, tuple(name.strip() for name in tail.split(",") if name.strip()))
