"""What `up` collects from: the demo cluster, or one context of a kubeconfig.

Input: command-line options; output: a Target, or one clear line when the kubeconfig cannot be used. Only the file is
looked at here, before anything starts; whether the API answers is asked once Django runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from .errors import LaunchError


@dataclass(frozen=True)
class Target:
    """A real cluster."""

    kubeconfig: Path
    context: str
    slug: str
    prometheus: str


def target_for(kubeconfig: Path, context: str | None, prometheus: str | None) -> Target:
    """The cluster that this kubeconfig and context name."""
    names, current = _contexts(kubeconfig)
    chosen = context or current
    if not chosen:
        raise LaunchError(f"{kubeconfig} has no current-context; choose one with --context: {_listed(names)}")
    if chosen not in names:
        raise LaunchError(f"{kubeconfig} has no context {chosen!r}; it has: {_listed(names)}")
    return Target(kubeconfig, chosen, _slug(chosen), checked_url(prometheus) if prometheus else "")


def checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        usable = False
    if not usable:
        raise LaunchError(f"--prometheus {url}: not an http or https address")
    return url


def _contexts(path: Path) -> tuple[list[str], str]:
    try:
        content = yaml.safe_load(path.read_text())
    except OSError as error:
        raise LaunchError(f"kubeconfig {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise LaunchError(f"kubeconfig {path}: not YAML: {' '.join(str(error).split())}") from error
    entries = content.get("contexts") if isinstance(content, dict) else None
    if not isinstance(content, dict) or not isinstance(entries, list) or not entries:
        raise LaunchError(f"kubeconfig {path}: it names no contexts; is it a kubeconfig?")
    names = [str(entry["name"]) for entry in entries if isinstance(entry, dict) and entry.get("name")]
    return names, str(content.get("current-context") or "")


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "none"


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "cluster"
