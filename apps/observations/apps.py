from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ObservationsConfig(AppConfig):
    name = "apps.observations"
    label = "observations"
    verbose_name = _("Observations")
    default_auto_field = "django.db.models.BigAutoField"
