"""Who uses the portal: users, teams and who belongs to which, and what their programs sign in with."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.utils.translation import gettext_lazy as _


class User(AbstractUser):
    """A person or service account. The role says what is seen across teams; `Membership` says which teams."""

    class Role(models.TextChoices):
        VIEWER = "viewer", _("Viewer")
        PLATFORM_ADMIN = "platform_admin", _("Platform admin")
        FINANCE = "finance", _("Finance")

    role = models.CharField(_("role"), max_length=20, choices=Role.choices, default=Role.VIEWER)

    @property
    def is_platform_admin(self) -> bool:
        return self.is_superuser or self.role == self.Role.PLATFORM_ADMIN

    @property
    def is_finance(self) -> bool:
        return self.role == self.Role.FINANCE


class Team(models.Model):
    """An organisational unit that holds quota. `cost_centre` is finance's own key and may be empty."""

    slug = models.SlugField(_("slug"), max_length=80, unique=True)
    name = models.CharField(_("name"), max_length=120)
    cost_centre = models.CharField(_("cost centre"), max_length=40, blank=True)
    members: models.ManyToManyField[User, Membership] = models.ManyToManyField(
        User, through="Membership", related_name="teams", verbose_name=_("members")
    )

    class Meta:
        verbose_name = _("team")
        verbose_name_plural = _("teams")
        ordering: ClassVar[list[str]] = ["name", "slug"]

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """A user in a team; a lead also asks for changes and sets budgets for it."""

    class Role(models.TextChoices):
        MEMBER = "member", _("Member")
        LEAD = "lead", _("Team lead")

    user = models.ForeignKey(
        User, on_delete=models.CASCADE, related_name="memberships", verbose_name=_("user")
    )
    team = models.ForeignKey(
        Team, on_delete=models.CASCADE, related_name="memberships", verbose_name=_("team")
    )
    role = models.CharField(_("role"), max_length=10, choices=Role.choices, default=Role.MEMBER)

    class Meta:
        verbose_name = _("membership")
        verbose_name_plural = _("memberships")
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["user", "team"], name="membership_once")
        ]

    def __str__(self) -> str:
        return f"{self.user} – {self.team}"


class ApiToken(models.Model):
    """What a program of `user` signs in to REST with. `key` finds the row and is no secret; of the secret only the
    SHA-256 `secret_digest` is kept. It reads what `user` may read, as far as its scope goes, until it expires."""

    class Scope(models.TextChoices):
        FINANCE_READ = "finance:read", _("Finance: rates, billing periods, charges, statements and usage")
        READ = "read", _("Everything that its owner may read")

    user = models.ForeignKey(
        User, on_delete=models.CASCADE, related_name="api_tokens", verbose_name=_("owner")
    )
    name = models.CharField(_("name"), max_length=80)
    scope = models.CharField(_("scope"), max_length=20, choices=Scope.choices)
    key = models.CharField(_("begins with"), max_length=20, unique=True)
    secret_digest = models.CharField(_("digest"), max_length=64)
    created_at = models.DateTimeField(_("made at"))
    expires_at = models.DateTimeField(_("expires at"))
    last_used_at = models.DateTimeField(_("last used at"), null=True, blank=True)

    class Meta:
        verbose_name = _("API token")
        verbose_name_plural = _("API tokens")
        ordering: ClassVar[list[str]] = ["-created_at", "-pk"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["user", "name"], name="api_token_name_once")
        ]

    def __str__(self) -> str:
        return f"{self.user} – {self.name}"
