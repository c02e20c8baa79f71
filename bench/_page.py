"""Pages measured against an empty one, in this process. Input: addresses; output: seconds of server time."""

from __future__ import annotations

import gc
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

REPEATS = 31
EMPTY = "{% extends 'base.html' %}{% block content %}<p>{{ count }}</p>{% endblock %}"


def django_setup() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuportal.settings")
    os.environ.setdefault("PORTAL_PROCESS", "bench")
    import django

    django.setup()


def seconds(work: Callable[[], object]) -> float:
    gc.collect()
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


@contextmanager
def ready() -> Iterator[None]:
    """Django with a migrated database and collected static files."""
    with TemporaryDirectory() as static:
        os.environ["PORTAL_STATIC_ROOT"] = static
        django_setup()
        for command in ("migrate", "collectstatic --noinput"):
            manage = [sys.executable, "manage.py", *command.split(), "--verbosity", "0"]
            subprocess.run(manage, cwd=Path(__file__).resolve().parent.parent, check=True)
        yield


def empty_page(request: HttpRequest) -> HttpResponse:
    """The base template around one number from one query."""
    from django.http import HttpResponse
    from django.template import engines

    from apps.fleet.models import Cluster

    template = engines["django"].from_string(EMPTY)
    return HttpResponse(template.render({"count": Cluster.objects.count()}, request))


def client() -> Any:
    from django.conf import settings
    from django.test import Client
    from django.urls import path

    import gpuportal.urls
    from apps.accounts.models import User

    settings.ALLOWED_HOSTS = [*settings.ALLOWED_HOSTS, "testserver"]
    gpuportal.urls.urlpatterns.insert(0, path("bench-empty/", empty_page))
    user, _made = User.objects.get_or_create(
        username="bench", defaults={"role": "platform_admin", "is_active": True}
    )
    found = Client()
    found.force_login(user)
    return found


def get(browser: Any, url: str) -> None:
    answer = browser.get(url)
    if answer.status_code != 200:
        raise SystemExit(f"bench: {url} answered {answer.status_code}")


def measure_page(browser: Any, url: str) -> dict[str, float]:
    """Server time of the page and of the empty one, in turn."""
    page, empty = [], []
    for _ in range(REPEATS):
        page.append(seconds(lambda: get(browser, url)))
        empty.append(seconds(lambda: get(browser, "/bench-empty/")))
    return {"page": statistics.median(page[1:]), "empty": statistics.median(empty[1:])}
