from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class FindingsConfig(AppConfig):
    name = "apps.findings"
    label = "findings"
    verbose_name = _("Findings")
    default_auto_field = "django.db.models.BigAutoField"
