from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ChargebackConfig(AppConfig):
    name = "apps.chargeback"
    label = "chargeback"
    verbose_name = _("Chargeback")
    default_auto_field = "django.db.models.BigAutoField"
