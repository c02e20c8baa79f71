"""The WSGI entry point that gunicorn serves. The task application comes with it, so that what a page sends to the
workers goes to the configured broker."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuportal.settings")
application = get_wsgi_application()

from gpuportal import celery  # noqa: E402, F401
