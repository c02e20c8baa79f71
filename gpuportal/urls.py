"""Every address of the portal."""

from django.contrib import admin
from django.urls import include, path

from gpuportal import health

urlpatterns = [
    path("healthz/live", health.live, name="healthz-live"),
    path("healthz/ready", health.ready, name="healthz-ready"),
    path("admin/", admin.site.urls),
    path("api/", include("apps.api.urls")),
    path("", include("apps.console.urls")),
]
