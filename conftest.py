"""Shared by every test: the environment that settings need, before Django reads it.

`./portal test` starts PostgreSQL and Redis and sets DATABASE_URL and REDIS_URL; a plain `pytest` uses whatever
servers these variables name."""

import os

os.environ.setdefault("PORTAL_SECRET_KEY", "only-for-tests-" + "x" * 40)
os.environ.setdefault("PORTAL_PROCESS", "test")
# pytest-playwright keeps an event loop in the main thread, where Django would refuse to query.
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
