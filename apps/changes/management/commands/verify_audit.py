"""`manage.py verify_audit`: read the whole audit trail and tell whether every entry is as it was written.

Output: how many entries fit and the hash of the last, to be noted outside the database; exit code 1 and the first fault
otherwise. With `--expect` the trail also has to hold the entry that was noted earlier: what is cut off at the end leaves
no other trace. A trail that fits gets an entry that says so, which `/audit/` shows; one that does not is left alone.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.changes.audit import Broken, note_verified, walk

_FAULTS = {
    "missing": "it is missing: entries were taken out",
    "chain": "it does not follow from the entry before",
    "content": "it is not what was written",
    "tip": "it is not the entry that was expected, or the trail ends before it",
}


class Command(BaseCommand):
    help = "Verify the audit trail; exit code 1 and the first fault when it was tampered with."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--expect",
            type=noted,
            metavar="SEQUENCE:HASH",
            help="an entry that an earlier run printed; the trail has to hold it still",
        )
        parser.add_argument(
            "--read-only", action="store_true", help="do not note in the trail that it was verified"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        found = walk(expect=options["expect"])
        if found.broken is not None:
            raise CommandError(f"{said(found.broken)}; {found.count} entries before it fit")
        self.stdout.write(f"{found.count} entries fit; the last is {found.count}:{found.tip}")
        if not options["read_only"]:
            note_verified(found)


def said(broken: Broken) -> str:
    return f"entry {broken.sequence}: {_FAULTS[broken.fault]}"


def noted(text: str) -> tuple[int, str]:
    """SEQUENCE:HASH as the command prints it."""
    if not re.fullmatch(r"[0-9]{1,18}:[0-9a-f]{64}", text):
        raise ArgumentTypeError("write SEQUENCE:HASH as an earlier run printed it")
    sequence, _, digest = text.partition(":")
    return int(sequence), digest
