"""Which nodes have another model than a flavor promises. Input: a cluster's flavors and nodes; output: `WrongPlaces`.

A flavor promises the models of the nodes that carry its labels; where no node does, the model that its own labels name,
which is compared under the same label only (vendors and clouds name one model differently).

Invariants: a node that carries a flavor's labels is never wrong for it; nothing is said of a node without a model, nor of
a flavor that promises none. Nodes that are alike are judged once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from apps.fleet.models import Cluster
from apps.fleet.registry import model_named_in, registry
from apps.observations.selectors import live_nodes, live_objects


@dataclass(slots=True)
class WrongPlaces:
    """`kinds`: what kind of place a node is; `models`: the model by node; `promised`: by flavor; `wrong`: pairs of flavor
    and kind."""

    kinds: dict[str, int] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)
    promised: dict[str, tuple[str, ...]] = field(default_factory=dict)
    wrong: set[tuple[str, int]] = field(default_factory=set)


def wrong_places(cluster: Cluster) -> WrongPlaces:
    """Two queries; kinds of places, not nodes, are compared with flavors."""
    flavors: dict[str, Mapping[str, str]] = {
        name: spec.get("node_labels") or {}
        for name, spec in live_objects(kind="ResourceFlavor", clusters=[cluster]).values_list("name", "spec")
    }
    looked_at = sorted({key for labels in flavors.values() for key in labels} | _product_labels())
    found = WrongPlaces()
    alike: dict[tuple[str | None, ...], int] = {}
    places: list[Mapping[str, str]] = []
    for name, labels in live_nodes(clusters=[cluster]).values_list("name", "labels").iterator():
        shape = tuple(labels.get(key) for key in looked_at)
        if shape not in alike:
            alike[shape] = len(places)
            places.append(labels)
        found.kinds[name] = alike[shape]
        found.models[name] = model_named_in(labels)
    for flavor, wanted in flavors.items():
        promised, wrong = _judged(wanted, places)
        found.promised[flavor] = promised
        found.wrong |= {(flavor, kind) for kind in wrong}
    return found


def _product_labels() -> set[str]:
    return {label for vendor in registry().vendors.values() for label in vendor.labels.model}


def _judged(wanted: Mapping[str, str], places: list[Mapping[str, str]]) -> tuple[tuple[str, ...], list[int]]:
    """(promised models, the kinds of places that have another)."""
    reached = [all(labels.get(key) == value for key, value in wanted.items()) for labels in places]
    models = {
        model_named_in(labels) for labels, is_reached in zip(places, reached, strict=True) if is_reached
    }
    if any(reached):
        if "" in models:  # somewhere the flavor reaches a card that nobody named
            return (), []
        wrong = [
            kind
            for kind, labels in enumerate(places)
            if not reached[kind] and model_named_in(labels) not in {"", *models}
        ]
        return tuple(sorted(models)), wrong
    named = {key: wanted[key] for key in _product_labels() & wanted.keys()}
    wrong = [
        kind
        for kind, labels in enumerate(places)
        if any(labels.get(key) not in (None, "", value) for key, value in named.items())
    ]
    return ((model_named_in(wanted),) if named else ()), wrong
