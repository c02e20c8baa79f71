from __future__ import annotations

from tests.receiving import hook, mailbox

__all__ = ["hook", "mailbox"]
