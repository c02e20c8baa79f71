"""Who may do what with the ledger. Reading is by team, as everywhere; what is of all teams is for who reads them all."""

from __future__ import annotations

from django.contrib.auth.models import AnonymousUser

from apps.accounts.models import User


def may_close(user: User | AnonymousUser) -> bool:
    """Close billing periods and publish rate cards: finance, and platform admins."""
    return isinstance(user, User) and user.is_active and (user.is_finance or user.is_platform_admin)
