from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class CapacityConfig(AppConfig):
    name = "apps.capacity"
    label = "capacity"
    verbose_name = _("Capacity")
    default_auto_field = "django.db.models.BigAutoField"
