"""Users, teams, memberships and API tokens in the admin site.

The site opens to staff; what staff may maintain in it follows from the portal's own role, so that a role is
enough and no Django permission has to be handed out beside it. Only a superuser hands out superuser rights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import ApiToken, Membership, Team, User

if TYPE_CHECKING:
    UserModelAdmin = DjangoUserAdmin[User]
    TeamModelAdmin = admin.ModelAdmin[Team]
    TokenModelAdmin = admin.ModelAdmin[ApiToken]
    Inline = admin.TabularInline[Membership, User]
else:
    UserModelAdmin = DjangoUserAdmin
    TeamModelAdmin = admin.ModelAdmin
    TokenModelAdmin = admin.ModelAdmin
    Inline = admin.TabularInline


class PlatformAdminOnly:
    """Mix into a ModelAdmin or inline: platform admins may do everything in it, nobody else anything."""

    def allowed(self, request: HttpRequest) -> bool:
        user = request.user
        return bool(isinstance(user, User) and user.is_active and user.is_staff and user.is_platform_admin)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.allowed(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.allowed(request)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.allowed(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.allowed(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.allowed(request)


class FinanceOrPlatformAdmin(PlatformAdminOnly):
    """For what finance publishes."""

    def allowed(self, request: HttpRequest) -> bool:
        user = request.user
        if super().allowed(request):
            return True
        return isinstance(user, User) and user.is_active and user.is_staff and user.is_finance


class MembershipInline(PlatformAdminOnly, Inline):
    model = Membership
    extra = 0
    autocomplete_fields = ("user", "team")


@admin.register(User)
class UserAdmin(PlatformAdminOnly, UserModelAdmin):
    list_display = ("username", "first_name", "last_name", "role", "is_staff", "is_active")
    list_filter = ("role", "is_staff", "is_active")
    inlines = (MembershipInline,)
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        (_("Person"), {"fields": ("first_name", "last_name", "email")}),
        (_("Access"), {"fields": ("role", "is_active", "is_staff", "is_superuser")}),
        (_("Dates"), {"fields": ("last_login", "date_joined")}),
    )
    add_fieldsets = (
        (None, {"classes": ("wide",), "fields": ("username", "usable_password", "password1", "password2")}),
        (_("Access"), {"fields": ("role", "is_staff")}),
    )
    filter_horizontal = ()
    readonly_fields = ("last_login", "date_joined")

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> tuple[str, ...]:
        fields = tuple(super().get_readonly_fields(request, obj))
        return fields if request.user.is_superuser else (*fields, "is_superuser")

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return self.allowed(request) and self._may_touch(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return self.allowed(request) and self._may_touch(request, obj) and obj != request.user

    def get_inline_instances(self, request: HttpRequest, obj: User | None = None) -> list[Any]:
        """Memberships are given once the user exists."""
        return super().get_inline_instances(request, obj) if obj else []

    @staticmethod
    def _may_touch(request: HttpRequest, obj: User | None) -> bool:
        """Whoever may set a password may log in as its owner."""
        return obj is None or not obj.is_superuser or bool(request.user.is_superuser)


@admin.register(Team)
class TeamAdmin(PlatformAdminOnly, TeamModelAdmin):
    list_display = ("name", "slug", "cost_centre")
    search_fields = ("name", "slug", "cost_centre")
    prepopulated_fields: ClassVar[dict[str, Sequence[str]]] = {"slug": ("name",)}
    inlines = (MembershipInline,)


@admin.register(ApiToken)
class ApiTokenAdmin(PlatformAdminOnly, TokenModelAdmin):
    """All tokens, to look at and to revoke: who is to use one makes it, so that nobody else ever reads it."""

    list_display = ("key", "user", "name", "scope", "created_at", "last_used_at", "expires_at")
    list_filter = ("scope",)
    search_fields = ("key", "name", "user__username")
    exclude = ("secret_digest",)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


admin.site.site_header = _("GPU Portal administration")
admin.site.site_title = _("GPU Portal administration")
# Groups and single permissions grant nothing here: the role and the memberships do.
admin.site.unregister(Group)
