"""Reading a Prometheus-compatible API through `prometheus_api_client`, with timeouts and clear errors.

Input: PromQL and times; output: the series of the answer as lists of dicts: instant vectors
({"metric": …, "value": [ts, text]}) or matrices ({"metric": …, "values": [[ts, text], …]}). Values stay text.
Invariants: nothing is retried; every failure is a ClientError that carries Prometheus' own words.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
import requests
from prometheus_api_client import PrometheusConnect
from urllib3.util import Retry

from . import errors
from .errors import ClientError

Series = list[dict[str, Any]]
_MESSAGE_LENGTH = 500
_LONGEST_QUERY = 2000
"""Characters of PromQL that an address may carry: servers and what stands before them cut addresses off."""


class _Session(requests.Session):
    """Sends what a POST asks for in its body; the library would put it into the address."""

    def request(self, method: Any, *args: Any, **options: Any) -> requests.Response:
        if method == "POST" and "data" not in options:
            options["data"] = options.pop("params", None)
        return super().request(method, *args, **options)


class _ErrorBody(msgspec.Struct, frozen=True):
    error: str = ""
    error_type: str = msgspec.field(default="", name="errorType")


_error_body = msgspec.json.Decoder(_ErrorBody)


class PromClient:
    """One Prometheus. Not shared between threads."""

    def __init__(self, url: str, connect_timeout: float = 5.0, read_timeout: float = 30.0) -> None:
        self.url = url.rstrip("/")
        if not self.url.startswith(("http://", "https://")):
            raise ClientError(errors.BAD_CONFIG, f"Prometheus URL {url!r}: not an http or https address")
        self.bytes_read = 0
        session = _Session()
        session.hooks["response"].append(self._check)
        self._timeout = (connect_timeout, read_timeout)
        self._get, self._post = (
            PrometheusConnect(
                url=self.url,
                session=session,
                timeout=self._timeout,
                retry=Retry(total=0, read=False),
                method=method,
            )
            for method in ("GET", "POST")
        )
        self._session = session

    def close(self) -> None:
        self._session.close()

    def instant(self, query: str, at: datetime | None = None) -> Series:
        """The value of every series that matches, at a time (default: the server's now)."""
        params = {} if at is None else {"time": f"{at.timestamp():.3f}"}
        return self._call("query", lambda: self._api(query).custom_query(query, params=params))

    def range(self, query: str, start: datetime, end: datetime, step_seconds: int) -> Series:
        """The values of every series that matches, one per step, both ends included."""
        return self._call(
            "query_range",
            lambda: self._api(query).custom_query_range(
                query, start_time=start, end_time=end, step=f"{step_seconds}s"
            ),
        )

    def _api(self, query: str) -> PrometheusConnect:
        return self._post if len(query) > _LONGEST_QUERY else self._get

    def _call(self, what: str, run: Any) -> Series:
        where = f"{self.url}/api/v1/{what}"
        try:
            found = run()
        except requests.Timeout as error:
            limits = f"connect {self._timeout[0]:g} s, read {self._timeout[1]:g} s"
            raise ClientError(errors.TIMEOUT, f"{where}: no answer in time ({limits})") from error
        except (requests.exceptions.JSONDecodeError, LookupError, TypeError) as error:
            raise ClientError(errors.BAD_BODY, f"{where}: the answer is no Prometheus result") from error
        except (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema) as error:
            raise ClientError(errors.BAD_CONFIG, f"{where}: {_one_line(error)}") from error
        except requests.RequestException as error:
            raise ClientError(errors.UNREACHABLE, f"{where}: {_one_line(error)}") from error
        if not isinstance(found, list) or not all(isinstance(series, dict) for series in found):
            raise ClientError(errors.BAD_BODY, f"{where}: the answer is no list of series", status=200)
        return found

    def _check(self, response: requests.Response, *_args: Any, **_kwargs: Any) -> None:
        """Every answer passes here: count it, and turn a refusal into an error with the server's words."""
        self.bytes_read += len(response.content)
        if response.status_code == 200 or response.is_redirect:
            return
        try:
            said = _error_body.decode(response.content)
        except msgspec.MsgspecError:
            said = _ErrorBody(error=response.text)
        words = _one_line(said.error or said.error_type or "no reason given")
        retry_after = response.headers.get("Retry-After", "")
        raise ClientError(
            errors.kind_of_status(response.status_code),
            f"{self.url}: {response.status_code}: {words}",
            status=response.status_code,
            retry_after=float(retry_after) if retry_after.isdigit() else None,
        )


def _one_line(error: Any) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _MESSAGE_LENGTH else text[:_MESSAGE_LENGTH] + " …"
