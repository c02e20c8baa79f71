"""`./portal manage close_period 2026-03 [--reason TEXT] [--user NAME]`: close a billing period, for good."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from apps.accounts.models import User
from apps.chargeback.close_words import refusal_text
from apps.chargeback.ledger import NotClosable, close, keep_periods
from apps.chargeback.permissions import may_close


class Command(BaseCommand):
    help = "Close a billing period, for good. A second run finds it closed and changes nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("month", help="such as 2026-03")
        parser.add_argument("--reason", default="", help="why it is closed although something is missing")
        parser.add_argument("--user", default="", help="who closes it; without it the portal itself")

    def handle(self, *_args: Any, **options: Any) -> None:
        now = timezone.now()
        period = next((one for one in keep_periods(now) if one.month == options["month"]), None)
        if period is None:
            raise CommandError(
                f"There is no billing period {options['month']!r}: give a month such as 2026-03."
            )
        try:
            closed = close(period.pk, by=_person(options["user"]), reason=options["reason"], now=now)
        except NotClosable as error:
            raise CommandError(f"{options['month']} is not closed: {refusal_text(error)}") from error
        totals = ", ".join(f"{amount} {code}" for code, amount in closed.totals.items()) or "nothing charged"
        self.stdout.write(
            f"{closed.month} is closed: {closed.entries} lines, {totals}, digest {closed.digest}"
        )


def _person(name: str) -> User | None:
    if not name:
        return None
    found = User.objects.filter(username=name).first()
    if found is None:
        raise CommandError(f"There is no user {name!r}.")
    if not may_close(found):
        raise CommandError(f"{name} may not close periods: only finance and platform admins do.")
    return found
