"""The tests' own database, for processes that a test starts."""

from __future__ import annotations

import os

from django.db import connection


def database_url_of_tests() -> str:
    """DATABASE_URL with the name of the database that this pytest process uses."""
    base, _mark, query = os.environ["DATABASE_URL"].partition("?")
    name = connection.settings_dict["NAME"]
    return base.rpartition("/")[0] + f"/{name}" + (f"?{query}" if query else "")
