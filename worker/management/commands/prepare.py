"""`manage.py prepare`: everything between an empty database and the first pull, in one process.

Input: what the launcher decided; output: lines `@step <title>` as it goes and `@error <sentence>` when it cannot go
on. Every part is idempotent, so that a second start runs it again. One process, because loading Django and the
Kubernetes client costs more than most parts.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from django.utils import timezone

from apps.accounts.models import User
from apps.observations.retention import keep_observation_partitions
from worker.clients.errors import ClientError
from worker.management.commands.set_cluster import check_api
from worker.tasks import dispatch

ROLES: dict[str, dict[str, Any]] = {
    "admin": {"role": User.Role.PLATFORM_ADMIN, "is_staff": True, "is_superuser": True},
    "finance": {"role": User.Role.FINANCE, "is_staff": True},
    "viewer": {"role": User.Role.VIEWER},
}


class Command(BaseCommand):
    help = "Migrate, name the cluster, make the users and ask for the first pull. Used by ./portal up."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--migrate", action="store_true", help="apply migrations first")
        parser.add_argument("--demo", metavar="DIR", help="state folder of the demo cluster")
        parser.add_argument("--api", metavar="URL", help="address of the demo cluster")
        parser.add_argument("--slug", help="name of a real cluster")
        parser.add_argument("--kubeconfig", metavar="FILE")
        parser.add_argument("--context", default="", metavar="NAME")
        parser.add_argument("--prometheus", default="", metavar="URL")
        parser.add_argument("--users", metavar="FILE", help="JSON object of first passwords by user name")

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            self._prepare(options)
        except CommandError as error:
            self._say("error", str(error))
            raise SystemExit(1) from error
        except DatabaseError as error:
            self._say("error", f"database: {_first_line(error)}")
            raise SystemExit(1) from error
        except ClientError as error:
            self._say("error", error.message)
            raise SystemExit(1) from error

    def _prepare(self, options: dict[str, Any]) -> None:
        if options["kubeconfig"]:
            self._say("step", "asking the cluster's API")
            check_api(options["kubeconfig"], options["context"])
        if options["migrate"]:
            self._say("step", "migrating")
            call_command("migrate", interactive=False, verbosity=1, stdout=self.stderr)
        keep_observation_partitions(now=timezone.now())
        if options["demo"]:
            self._say("step", "demo fleet, teams and users")
            call_command("seed_demo", state=options["demo"], api=options["api"], stdout=self.stderr)
            self._say("step", "importing the demo's past")
            call_command("import_history", api=options["api"], stdout=self.stderr)
        if options["kubeconfig"]:
            self._say("step", "naming the cluster")
            self._name_cluster(options)
        if options["users"]:
            make_users(json.loads(Path(options["users"]).read_text()))
        dispatch.apply_async(queue="collect", expires=settings.COLLECT_INTERVAL_SECONDS * 4)

    def _name_cluster(self, options: dict[str, Any]) -> None:
        call_command(
            "set_cluster",
            slug=options["slug"],
            kubeconfig=options["kubeconfig"],
            context=options["context"],
            prometheus=options["prometheus"],
            stdout=self.stderr,
        )

    def _say(self, kind: str, text: str) -> None:
        self.stdout.write(f"@{kind} {text}")
        self.stdout.flush()


def make_users(passwords: dict[str, str]) -> None:
    """The first users of a new installation. Who exists already keeps the own password and rights."""
    for name, password in passwords.items():
        if not User.objects.filter(username=name).exists():
            User.objects.create_user(username=name, password=password, **ROLES[name])


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
