"""`manage.py set_cluster`: name a real cluster to collect from. Running it again changes the same cluster."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from apps.fleet.models import Cluster
from worker.clients.errors import FORBIDDEN, ClientError
from worker.clients.kube import KubeClient


class Command(BaseCommand):
    help = "Collect from the cluster that a kubeconfig names; demo clusters are switched off."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--slug", required=True, help="short name in addresses, for example prod-a")
        parser.add_argument("--name", help="name that people read (default: the slug)")
        parser.add_argument("--kubeconfig", required=True, metavar="FILE")
        parser.add_argument("--context", default="", metavar="NAME")
        parser.add_argument("--prometheus", default="", metavar="URL")

    def handle(self, *_args: Any, **options: Any) -> None:
        kubeconfig = str(Path(options["kubeconfig"]).resolve())
        try:
            check_api(kubeconfig, options["context"])
        except ClientError as error:
            raise CommandError(error.message) from error
        with transaction.atomic():
            cluster = Cluster.objects.filter(slug=options["slug"]).first() or Cluster(slug=options["slug"])
            cluster.name = options["name"] or cluster.name or options["slug"]
            cluster.kubeconfig_path = kubeconfig
            cluster.kube_context = options["context"]
            cluster.prometheus_url = options["prometheus"]
            cluster.enabled, cluster.is_demo = True, False
            try:
                cluster.full_clean()
            except ValidationError as error:
                raise CommandError("; ".join(error.messages)) from error
            cluster.save()
            for demo in Cluster.objects.filter(is_demo=True, enabled=True):
                demo.enabled = False
                demo.save(update_fields=["enabled"])
        self.stdout.write(f"cluster {cluster.slug}: {kubeconfig}")


def check_api(kubeconfig: str, context: str) -> None:
    """Raise ClientError when this context's API does not answer, or does not know who we are.

    What we may read is not asked here: a missing right is shown on /sources/ for the kinds that it concerns."""
    client = KubeClient(
        kubeconfig,
        context,
        connect_timeout=settings.CONNECT_TIMEOUT_SECONDS,
        read_timeout=settings.READ_TIMEOUT_SECONDS,
    )
    try:
        client.get("/version")
        client.get("/api/v1/nodes", {"limit": 1})
    except ClientError as error:
        if error.kind != FORBIDDEN:
            raise
    finally:
        client.close()
