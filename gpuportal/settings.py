"""The portal's one settings module. What may differ between installations comes from the environment
(docs/operating.md lists every variable); a bad value stops the start with one clear line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import environ
from csp.constants import SELF

from gpuportal.environment import BadSetting, Environment

BASE_DIR = Path(__file__).resolve().parent.parent
env = Environment()

try:
    DEBUG = env.flag("PORTAL_DEBUG", False)
    SECRET_KEY = env.secret("PORTAL_SECRET_KEY", shortest=32)
    ALLOWED_HOSTS = env.hosts("PORTAL_ALLOWED_HOSTS", ["127.0.0.1", "localhost", "[::1]"])
    CSRF_TRUSTED_ORIGINS = env.origins("PORTAL_TRUSTED_ORIGINS")
    BEHIND_TLS = env.flag("PORTAL_BEHIND_TLS", False)
    PROCESS_NAME = env.choice(
        "PORTAL_PROCESS", "manage", {"web", "worker", "beat", "manage", "test", "bench"}
    )
    DATABASE_URL = env.url("DATABASE_URL", "", {"postgres", "postgresql"})
    REDIS_URL = env.url("REDIS_URL", "redis://127.0.0.1:6379/0", {"redis", "rediss"})
    TIME_ZONE = env.time_zone("PORTAL_TIME_ZONE", "UTC")
    # Months of billing; their bounds are stored, so that a change holds from the next month on.
    BILLING_ZONE = env.time_zone("PORTAL_BILLING_ZONE", "UTC")
    # Who bills, in exports of the ledger.
    ORGANISATION = env.text("PORTAL_ORGANISATION", "GPU Portal")
    LANGUAGE_CODE = env.choice("PORTAL_LANGUAGE", "en", {"en", "zh-hans"})
    # Capacity is kept in memory between requests; short-lived processes have nothing to keep it for.
    CAPACITY_MEMORY = env.flag("PORTAL_CAPACITY_MEMORY", True) and PROCESS_NAME in {"web", "bench"}
    # Seconds between two pulls of one source; each pull must fit inside it.
    COLLECT_INTERVAL_SECONDS = env.integer("PORTAL_COLLECT_INTERVAL", 30, low=5, high=3600)
    STATEMENT_TIMEOUT_MS = env.integer("PORTAL_STATEMENT_TIMEOUT_MS", 60_000, low=1_000, high=3_600_000)
    CONNECT_TIMEOUT_SECONDS = env.integer("PORTAL_CONNECT_TIMEOUT", 5, low=1, high=60)
    READ_TIMEOUT_SECONDS = env.integer("PORTAL_READ_TIMEOUT", 20, low=1, high=300)
    EVENT_RETENTION_DAYS = env.integer("PORTAL_EVENT_RETENTION_DAYS", 30, low=1, high=3650)
    SAMPLE_RETENTION_DAYS = env.integer("PORTAL_SAMPLE_RETENTION_DAYS", 30, low=1, high=3650)
    TRANSITION_RETENTION_DAYS = env.integer("PORTAL_TRANSITION_RETENTION_DAYS", 400, low=1, high=3650)
    RUN_RETENTION_DAYS = env.integer("PORTAL_RUN_RETENTION_DAYS", 14, low=1, high=3650)
    GONE_RETENTION_DAYS = env.integer("PORTAL_GONE_RETENTION_DAYS", 30, low=1, high=3650)
    # The ConfigMap of Volcano's scheduler, in every cluster that has one.
    VOLCANO_CONFIGMAP = env.object_name(
        "PORTAL_VOLCANO_CONFIGMAP", "volcano-system/volcano-scheduler-configmap"
    )
    # Requests by REST: of one token, user or stranger's address, and failed attempts to sign in of one address.
    API_RATE = env.rate("PORTAL_API_RATE", (600, 60))
    API_FAILED_RATE = env.rate("PORTAL_API_FAILED_RATE", (20, 60))
    if PROCESS_NAME in {"test", "bench"}:  # one address asks thousands of times
        API_RATE = API_FAILED_RATE = None
    # Changes of quotas: who may approve, as whom they are written, and who hears of them.
    SELF_APPROVAL = env.flag("PORTAL_SELF_APPROVAL", False)
    IMPERSONATE = env.flag("PORTAL_IMPERSONATE", False)
    CHANGE_EXPIRY_DAYS = env.integer("PORTAL_CHANGE_EXPIRY_DAYS", 30, low=1, high=3650)
    PUBLIC_URL = env.url("PORTAL_PUBLIC_URL", "", {"https", "http"}).rstrip("/")
    WEBHOOK_URL = env.url("PORTAL_WEBHOOK_URL", "", {"https", "http"})
    WEBHOOK_SECRET = env.secret("PORTAL_WEBHOOK_SECRET", shortest=16)
    EMAIL_FROM = env.text("PORTAL_EMAIL_FROM")
    SMTP_URL = env.url("PORTAL_SMTP_URL", "", {"smtp", "smtp+tls", "smtp+ssl"})
    if WEBHOOK_URL and not WEBHOOK_SECRET:
        raise BadSetting(
            "PORTAL_WEBHOOK_SECRET: not set; messages to PORTAL_WEBHOOK_URL are signed with it: give at least "
            "16 characters"
        )
    if bool(SMTP_URL) != bool(EMAIL_FROM):
        raise BadSetting("PORTAL_SMTP_URL and PORTAL_EMAIL_FROM: give both, or neither")
    if not DATABASE_URL:
        raise BadSetting(
            "DATABASE_URL: not set; ./portal sets it for the embedded server, otherwise give "
            "postgresql://user:password@host:5432/name"
        )
    if not SECRET_KEY:
        raise BadSetting("PORTAL_SECRET_KEY: not set; give a long random text (./portal makes one)")
    DATABASES: dict[str, dict[str, Any]] = {"default": environ.Env.db_url_config(DATABASE_URL)}
    LOG_LEVEL = env.choice("PORTAL_LOG_LEVEL", "INFO", {"DEBUG", "INFO", "WARNING", "ERROR"})
except BadSetting as error:
    sys.exit(f"gpu-portal: {error}")

INSTALLED_APPS = [
    "apps.core",
    "apps.accounts",
    "apps.fleet",
    "apps.observations",
    "apps.quotas",
    "apps.capacity",
    "apps.admissions",
    "apps.usage",
    "apps.findings",
    "apps.chargeback",
    "apps.changes",
    "apps.console",
    "apps.api",
    "worker",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "gpuportal.staticfiles.PortalStaticFiles",
    "django.contrib.postgres",
    "django_tables2",
    "csp",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "apps.changes.middleware.ActingMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "gpuportal.urls"
WSGI_APPLICATION = "gpuportal.wsgi.application"
AUTH_USER_MODEL = "accounts.User"
LOGIN_URL = "console:login"
LOGIN_REDIRECT_URL = "console:overview"
LOGOUT_REDIRECT_URL = "console:login"
if PROCESS_NAME == "test":  # thousands of test users: their passwords guard nothing
    PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "apps.console.context.page_frame",
            ],
        },
    },
]

DATABASES["default"].update(
    # Workers keep no connection between tasks; the web process keeps its own for a minute.
    CONN_MAX_AGE=60 if PROCESS_NAME == "web" else 0,
    CONN_HEALTH_CHECKS=True,
)
DATABASES["default"].setdefault("OPTIONS", {}).update(
    application_name=f"gpu-portal-{PROCESS_NAME}",
    options=f"-c statement_timeout={STATEMENT_TIMEOUT_MS} -c timezone=UTC",
    connect_timeout=CONNECT_TIMEOUT_SECONDS,
)

USE_TZ = True
USE_I18N = True
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
LOCALE_PATHS = [BASE_DIR / "locale"]

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = Path(env.text("PORTAL_STATIC_ROOT", str(BASE_DIR / "var" / "staticfiles")))
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if DEBUG or PROCESS_NAME == "test"
        else "whitenoise.storage.CompressedManifestStaticFilesStorage"
    },
}
WHITENOISE_USE_FINDERS = DEBUG or PROCESS_NAME == "test"
WHITENOISE_KEEP_ONLY_HASHED_FILES = True
# Compressing takes most of a first start; source maps are asked for by nobody but a debugger.
WHITENOISE_SKIP_COMPRESS_EXTENSIONS = (
    *("jpg", "jpeg", "png", "gif", "webp", "zip", "gz", "tgz", "bz2", "tbz", "xz", "br", "woff", "woff2"),
    "map",
)

# plotly.js puts one empty <style> element into the page; this is the hash of the empty text.
EMPTY_STYLE = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "script-src": [SELF],
        "style-src": [SELF, EMPTY_STYLE],
        "img-src": [SELF, "data:", "blob:"],
        "connect-src": [SELF],
        "object-src": ["'none'"],
        "base-uri": [SELF],
        "form-action": [SELF],
        "frame-ancestors": ["'none'"],
    }
}
X_FRAME_OPTIONS = "DENY"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = BEHIND_TLS
CSRF_COOKIE_SECURE = BEHIND_TLS
# The form of a queue with as many cells as Kueue allows (16 groups of 256, three amounts each) has more than 1000 fields.
DATA_UPLOAD_MAX_NUMBER_FIELDS = 20_000
# The proxy's own requests are marked as secure by its header; probes ask this process directly.
SECURE_SSL_REDIRECT = BEHIND_TLS
SECURE_REDIRECT_EXEMPT = [r"^healthz/"]
SECURE_HSTS_SECONDS = 31_536_000 if BEHIND_TLS else 0
if BEHIND_TLS:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")

EMAIL_ENABLED = bool(SMTP_URL)
if EMAIL_ENABLED:
    globals().update(environ.Env.email_url_config(SMTP_URL))
    DEFAULT_FROM_EMAIL = SERVER_EMAIL = EMAIL_FROM
    EMAIL_TIMEOUT = CONNECT_TIMEOUT_SECONDS

CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL,
        # What is kept there is looked at in each request: nobody waits long for a server that is silent.
        "OPTIONS": {
            "socket_connect_timeout": CONNECT_TIMEOUT_SECONDS,
            "socket_timeout": CONNECT_TIMEOUT_SECONDS,
        },
    }
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "apps.api.authentication.TokenAuthentication",
        "apps.api.authentication.PasswordAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": [
        "rest_framework.permissions.IsAuthenticated",
        "apps.api.authentication.WithinScope",
    ],
    "DEFAULT_THROTTLE_CLASSES": ["apps.api.throttling.RateThrottle"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_FILTER_BACKENDS": [],
    "EXCEPTION_HANDLER": "apps.api.problems.problem_handler",
    "COERCE_DECIMAL_TO_STRING": True,
    "DATETIME_FORMAT": "iso-8601",
    "UNICODE_JSON": True,
    # `format` is a parameter like any other: unknown ones are refused by name.
    "URL_FORMAT_OVERRIDE": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "GPU Portal API",
    "DESCRIPTION": "GPU capacity, quota and admission facts of Kueue and Volcano clusters.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "OAS_VERSION": "3.1.0",
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "ENUM_NAME_OVERRIDES": {
        "FreshnessEnum": "apps.api.base.FRESHNESS",
        "WorkloadStateEnum": "apps.api.workloads.STATES",
        "BindingKindEnum": "apps.api.teams.BINDING_KINDS",
        "WorkloadKindEnum": "apps.api.workloads.KINDS",
        "ChargeBasisEnum": "apps.api.rates.BASES",
        "ChangeStateEnum": "apps.api.quota_changes_items.STATES",
        "ChangeOriginEnum": "apps.api.quota_changes_items.ORIGINS",
    },
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"},
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": LOG_LEVEL},
    "loggers": {"kubernetes": {"level": "WARNING"}, "urllib3": {"level": "ERROR"}},
}
