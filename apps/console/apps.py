from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ConsoleConfig(AppConfig):
    name = "apps.console"
    label = "console"
    verbose_name = _("Console")
    default_auto_field = "django.db.models.BigAutoField"
