from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ChangesConfig(AppConfig):
    name = "apps.changes"
    label = "changes"
    verbose_name = _("Changes")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from apps.changes.audit_signals import connect

        connect()
