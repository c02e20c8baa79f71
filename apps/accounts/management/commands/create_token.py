"""`manage.py create_token`: make an API token for a user and print it, this once."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from apps.accounts.models import ApiToken, User
from apps.accounts.token_form import DAYS, TokenForm
from apps.accounts.tokens import MOST_DAYS


class Command(BaseCommand):
    help = "Make an API token; it is printed once and cannot be shown again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", required=True, help="whose token: it reads what this user may read")
        parser.add_argument("--scope", required=True, choices=ApiToken.Scope.values)
        parser.add_argument("--name", required=True, help="what it is for; once per user")
        parser.add_argument("--days", default=DAYS, metavar="N", help=f"1 to {MOST_DAYS} (default: {DAYS})")

    def handle(self, *_args: Any, **options: Any) -> None:
        owner = User.objects.filter(username=options["user"]).first()
        if owner is None:
            raise CommandError(f"there is no user {options['user']}")
        form = TokenForm({name: options[name] for name in ("name", "scope", "days")}, owner=owner)
        made = form.make(now=timezone.now()) if form.is_valid() else None
        if made is None:
            faults = [f"{name}: {text}" for name, texts in form.errors.items() for text in texts]
            raise CommandError("; ".join(faults))
        token, text = made
        self.stderr.write(
            f"{token.key}… of {owner.username}, {token.scope}, until {token.expires_at:%Y-%m-%d}"
        )
        self.stdout.write(text)
