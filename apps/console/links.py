"""Addresses of pages, each with the filters that make it show the rows behind a number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse

from apps.findings.selectors import Finding


def address(name: str, *args: str, **filters: Any) -> str:
    """A console page with its filters; empty ones are left out."""
    return _address(name, args, tuple(filters.items()))


@lru_cache(maxsize=8192)
def _address(name: str, args: tuple[str, ...], filters: tuple[tuple[str, Any], ...]) -> str:
    """A table asks for the same few addresses once per cell, and again with each request."""
    query = urlencode({key: value for key, value in filters if value not in ("", None)})
    path = reverse(f"console:{name}", args=args)
    return f"{path}?{query}" if query else path


def node_url(cluster_slug: str, name: str) -> str:
    return address("node", name, cluster=cluster_slug)


def queue_url(cluster_slug: str, kind: str, name: str) -> str:
    return address("queue", cluster_slug, kind, name)


def workload_url(row: Any) -> str:
    """For rows of waiting work and for workloads; bare pods have such a page, too."""
    return address("workload", row.uid)


def finding_url(finding: Finding) -> str:
    """Where a finding leads; "" when it leads nowhere."""
    args: Mapping[str, str] = finding.args
    if finding.target == "node":
        return node_url(args.get("cluster", ""), args["name"])
    if finding.target == "queue":
        namespace = args.get("namespace", "")
        return address("queue", args["cluster"], args["kind"], args["name"], namespace=namespace)
    if finding.target == "workload":
        return address("workload", args["uid"])
    if finding.target == "team":
        return address("team", args["slug"])
    if finding.target:
        return address(finding.target, **args)
    return ""


def window_links(request: HttpRequest, lengths: Iterable[str]) -> list[tuple[str, str]]:
    """(length, this page over it)."""
    return [(one, with_query(request, window=one, **{"from": "", "to": ""})) for one in lengths]


def with_query(request: HttpRequest, **changes: str) -> str:
    """This page with some query parameters changed; "" takes one away. The page number is always reset."""
    query = request.GET.copy()
    query.pop("page", None)
    for key, value in changes.items():
        query.pop(key, None)
        if value:
            query[key] = value
    text = query.urlencode()
    return f"{request.path}?{text}" if text else request.path
