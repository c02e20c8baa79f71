"""Who uses the portal: users, teams and who belongs to which."""

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
