"""Addresses of the REST interface, version 1."""

from django.urls import URLPattern

app_name = "api"
urlpatterns: list[URLPattern] = []
