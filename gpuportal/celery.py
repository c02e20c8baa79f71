"""The Celery application: queues and schedule as code."""

from celery import Celery

app = Celery("gpuportal")
