"""The client libraries under test, untyped: their stubs make every field optional, their helpers have none."""

from __future__ import annotations

from importlib import import_module
from typing import Any

client: Any = import_module("kubernetes.client")
config: Any = import_module("kubernetes.config")
watch: Any = import_module("kubernetes.watch")
ApiException: Any = import_module("kubernetes.client.exceptions").ApiException
_prometheus: Any = import_module("prometheus_api_client")
PrometheusConnect: Any = _prometheus.PrometheusConnect
PrometheusApiClientException: Any = _prometheus.PrometheusApiClientException
