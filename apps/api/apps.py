from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ApiConfig(AppConfig):
    name = "apps.api"
    label = "api"
    verbose_name = _("REST API")
    default_auto_field = "django.db.models.BigAutoField"
