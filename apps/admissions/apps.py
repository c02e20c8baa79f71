from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class AdmissionsConfig(AppConfig):
    name = "apps.admissions"
    label = "admissions"
    verbose_name = _("Admissions")
    default_auto_field = "django.db.models.BigAutoField"
