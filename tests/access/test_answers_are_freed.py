"""What is left of an answer once it has been sent: nothing that only the cycle collector would free.

Lists are answered in pages of up to 10,000 rows. An answer that is part of a reference cycle stays in memory until the
collector's oldest generation is looked through, which a worker that mostly makes text does seldom: it grew by hundreds of
MiB while a ledger was pulled.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from django.http import HttpResponseBase
from django.test import RequestFactory
from django.test.client import ClientHandler

from apps.accounts.tokens import make_token
from apps.api.tests.world import World

from .test_roles import CASES, address

# What a form refuses keeps a traceback, and so the answer; that one is short.
READ_BY_ADMINS = [(name, path) for name, path, expected in CASES if expected[-1] == 200]


def _sent(environ: dict[str, Any]) -> weakref.ref[HttpResponseBase]:
    """Answer as a web server does; a reference to the answer that does not keep it."""
    response: Any = ClientHandler(enforce_csrf_checks=False)(environ)
    for _block in response:
        pass
    response.close()
    return weakref.ref(response)


@pytest.mark.parametrize(("name", "path"), READ_BY_ADMINS, ids=[path for _name, path in READ_BY_ADMINS])
def test_an_answer_is_freed_as_soon_as_it_has_been_sent(world: World, name: str, path: str) -> None:
    client = world.client("admin")
    factory = RequestFactory()
    factory.cookies = client.cookies
    headers = {}
    if path.startswith("/api/v1/"):
        text = make_token(world.users["admin"], name="reads", scope="read", days=1, now=world.now)[1]
        headers = {"Authorization": f"Bearer {text}"}
    environ = factory.get(address(world, path), headers=headers).environ
    gc.collect()
    gc.disable()
    try:
        left = _sent(environ)()
    finally:
        gc.enable()
    assert left is None
