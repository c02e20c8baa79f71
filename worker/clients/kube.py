"""Calling a Kubernetes API for raw bytes, through the `kubernetes` library's own configuration and connection pool.

Input: a kubeconfig file and a context; output: bodies as received. Invariants: authentication (tokens, exec
plugins and their refresh, client certificates), TLS settings and proxies are the library's; nothing is
deserialised by it; every call has a connect and a read timeout, and a body has to be complete within four read
timeouts; nothing is retried (the next tick is the retry) but a 429 that asks for at most two seconds, once; every
failure is a ClientError with one clear sentence.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec
import urllib3
import yaml
from kubernetes import config as kube_config
from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException

from . import errors
from .errors import ClientError, kind_of_status

Params = Mapping[str, str | int]

PAGE_LIMIT = 500
SHORT_RETRY_SECONDS = 2.0
SHORTEST_IDLE, LONGEST_IDLE = 0.1, 1.0
_CHUNK = 1 << 18
_MESSAGE_LENGTH = 500
_FUTURE = "Too large resource version"


class _Details(msgspec.Struct, frozen=True):
    retry_after_seconds: float | None = msgspec.field(default=None, name="retryAfterSeconds")


class _Status(msgspec.Struct, frozen=True):
    message: str = ""
    reason: str = ""
    details: _Details | None = None


class _ListMeta(msgspec.Struct, frozen=True):
    token: str = msgspec.field(default="", name="continue")


class _ListHead(msgspec.Struct, frozen=True):
    metadata: _ListMeta = _ListMeta()


class _GroupVersion(msgspec.Struct, frozen=True):
    version: str


class _Group(msgspec.Struct, frozen=True):
    versions: list[_GroupVersion] | None = None


_list_head = msgspec.json.Decoder(_ListHead)
_status = msgspec.json.Decoder(_Status)
_group = msgspec.json.Decoder(_Group)


def load_api_client(kubeconfig: str, context: str = "") -> ApiClient:
    """The library's client for a context of a kubeconfig. Raises ClientError("bad_config")."""
    if not os.path.isfile(kubeconfig):
        raise ClientError(errors.BAD_CONFIG, f"kubeconfig {kubeconfig}: no such file")
    configuration = Configuration()
    configuration.retries = False
    configuration.client_go_retries = False
    try:
        # Refreshed tokens stay in memory: the portal never writes into somebody's kubeconfig.
        client: ApiClient = kube_config.new_client_from_config(  # type: ignore[no-untyped-call]
            config_file=kubeconfig,
            context=context or None,
            persist_config=False,
            client_configuration=configuration,
        )
    except yaml.YAMLError as error:
        raise ClientError(
            errors.BAD_CONFIG, f"kubeconfig {kubeconfig}: not YAML: {_one_line(error)}"
        ) from error
    except (
        kube_config.ConfigException,
        OSError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
    ) as error:
        where = f"kubeconfig {kubeconfig}" + (f", context {context}" if context else "")
        raise ClientError(errors.BAD_CONFIG, f"{where}: {_one_line(error)}") from error
    return client


class KubeClient:
    """One cluster's API. May be read from several threads at once.

    `bytes_read` grows with every body; `clock_skew_seconds` is how far the server's clock was ahead of ours at
    the last answer (to within half a second), None before the first."""

    def __init__(
        self, kubeconfig: str, context: str = "", connect_timeout: float = 5.0, read_timeout: float = 30.0
    ) -> None:
        self._api = load_api_client(kubeconfig, context)
        self.connect_timeout = connect_timeout
        self.read_timeout = read_timeout
        self.bytes_read = 0
        self.clock_skew_seconds: float | None = None
        self._counting = threading.Lock()

    def _count(self, size: int) -> None:
        with self._counting:
            self.bytes_read += size

    @property
    def host(self) -> str:
        return str(self._api.configuration.host)

    def close(self) -> None:
        self._api.rest_client.close()

    # ------------------------------------------------------------------ reading
    def get(self, path: str, params: Params | None = None) -> bytes:
        """The body of a GET that was answered 200."""
        return _patiently(lambda: self._get_once(path, params))

    def list_pages(self, path: str, limit: int = PAGE_LIMIT, params: Params | None = None) -> Iterator[bytes]:
        """The pages of a list. When the continue token expires on the way, raises ClientError("expired"): what
        came before belongs to no consistent list and the caller lists again."""
        asked: dict[str, str | int] = {**(params or {}), "limit": limit}
        while True:
            body = self.get(path, asked)
            try:
                token = _list_head.decode(body).metadata.token
            except msgspec.MsgspecError as error:
                raise ClientError(
                    errors.BAD_BODY, f"{path}: the answer is no list: {error}", status=200
                ) from error
            yield body
            if not token:
                return
            asked["continue"] = token

    def watch(
        self, path: str, resource_version: str, timeout_seconds: int, params: Params | None = None
    ) -> Iterator[bytes]:
        """Lines of a bounded watch from a version on, bookmarks included.

        Ends when the server ends it, after `timeout_seconds`, or when the stream has been silent for a while:
        four times what the headers took, at least 0.1 s and at most 1 s. What was sent meanwhile comes with the
        next watch from the last version seen. Raises ClientError when the stream breaks; the lines before that
        are good; and ClientError("expired") when the version lies in the server's future. A line that did not arrive whole is not yielded."""
        asked: dict[str, str | int] = {
            **(params or {}),
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": timeout_seconds,
        }
        started = time.monotonic()
        response = self._open(path, asked)
        try:
            idle = min(max(4 * (time.monotonic() - started), SHORTEST_IDLE), LONGEST_IDLE)
            _set_timeout(response, idle)
            silent = True
            for line in self._lines(response, path, deadline=started + timeout_seconds + 1):
                silent = False
                yield line
        finally:
            response.close()
        if silent:
            self._refuse_future(path, resource_version)

    def served_versions(self, group: str) -> list[str]:
        """Versions of an API group in the server's order of preference, [] when it is not installed."""
        try:
            body = self.get(f"/apis/{group}" if group else "/api")
        except ClientError as error:
            if error.kind == errors.NOT_FOUND:
                return []
            raise
        if not group:
            return ["v1"]
        try:
            return [v.version for v in _group.decode(body).versions or ()]
        except msgspec.MsgspecError as error:
            raise ClientError(errors.BAD_BODY, f"/apis/{group}: {error}", status=200) from error

    def _refuse_future(self, path: str, resource_version: str) -> None:
        """Raise ClientError("expired") when the server has not come to this version yet.

        A watch from such a version is answered with silence, not with an error: after a restore from a backup
        it would look as if nothing ever changed. Only a list that asks for data not older than it is refused."""
        asked: dict[str, str | int] = {
            "limit": 1,
            "resourceVersion": resource_version,
            "resourceVersionMatch": "NotOlderThan",
        }
        try:
            self._get_once(path, asked)
        except ClientError as error:
            if error.kind == errors.EXPIRED:
                raise

    # ------------------------------------------------------------------ writing
    def write(
        self, method: str, path: str, body: Any, *, params: Params, headers: Mapping[str, str]
    ) -> bytes:
        """The body of a POST or PATCH that was answered 200 or 201; see `writes` for who calls it and how."""
        return _patiently(lambda: self._whole(self._ask(method, path, params, body, headers), path))

    # ------------------------------------------------------------------ transport
    def _get_once(self, path: str, params: Params | None) -> bytes:
        return self._whole(self._open(path, params), path)

    def _whole(self, response: urllib3.HTTPResponse, path: str) -> bytes:
        try:
            return self._body(response, path)
        finally:
            response.release_conn()

    def _open(self, path: str, params: Params | None) -> urllib3.HTTPResponse:
        """Send a GET and give the response at its headers. Raises ClientError for anything but 200."""
        return self._ask("GET", path, params)

    def _ask(
        self,
        method: str,
        path: str,
        params: Params | None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> urllib3.HTTPResponse:
        """Send a request and give the response at its headers. Raises ClientError for anything but 200 and 201."""
        sent = time.time()
        try:
            call = self._api.param_serialize(
                method,
                path,
                query_params=[(name, value) for name, value in (params or {}).items()],
                header_params={"Accept": "application/json", **(headers or {})},
                body=body,
                auth_settings=["BearerToken"],
            )
            answer = self._api.call_api(*call, _request_timeout=(self.connect_timeout, self.read_timeout))
        except (ApiException, urllib3.exceptions.HTTPError, OSError) as error:
            raise self._failure(error, path) from error
        response: urllib3.HTTPResponse = answer.response
        self._note_clock(response, sent)
        if response.status not in (200, 201):
            raise self._refusal(response, path, write=method != "GET")
        return response

    def _body(self, response: urllib3.HTTPResponse, path: str) -> bytes:
        deadline = time.monotonic() + 4 * self.read_timeout
        parts: list[bytes] = []
        try:
            # read1 gives what has arrived: read would wait for a full chunk, however slowly it drips.
            while part := response.read1(_CHUNK):
                self._count(len(part))
                parts.append(part)
                if time.monotonic() > deadline:
                    raise self._timed_out(path, "the body did not end")
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._failure(error, path) from error
        return b"".join(parts)

    def _lines(self, response: urllib3.HTTPResponse, path: str, *, deadline: float) -> Iterator[bytes]:
        rest = b""
        while time.monotonic() < deadline:
            try:
                part = response.read1(_CHUNK)
            except urllib3.exceptions.ReadTimeoutError:
                return
            except (urllib3.exceptions.HTTPError, OSError) as error:
                raise self._failure(error, path) from error
            if not part:
                if rest.strip():
                    yield rest
                return
            self._count(len(part))
            *lines, rest = (rest + part).split(b"\n")
            yield from (line for line in lines if line.strip())

    def _note_clock(self, response: urllib3.HTTPResponse, sent: float) -> None:
        try:
            said = parsedate_to_datetime(response.headers.get("Date", ""))
        except (TypeError, ValueError):
            return
        self.clock_skew_seconds = said.timestamp() + 0.5 - (sent + time.time()) / 2

    # ------------------------------------------------------------------ failures
    def _refusal(self, response: urllib3.HTTPResponse, path: str, *, write: bool) -> ClientError:
        """The error of an answer that is not good; its body says why, as a Status or in plain text."""
        try:
            body = response.read(1 << 16)
        except (urllib3.exceptions.HTTPError, OSError):
            body = b""
        finally:
            response.close()
        self._count(len(body))
        return refusal(response.status, body, path, response.headers.get("Retry-After"), write=write)

    def _timed_out(self, path: str, what: str) -> ClientError:
        limits = f"connect {self.connect_timeout:g} s, read {self.read_timeout:g} s"
        return ClientError(errors.TIMEOUT, f"{self.host}{path}: {what} in time ({limits})")

    def _failure(self, error: BaseException, path: str) -> ClientError:
        """The error of a call that got no usable answer at all."""
        if isinstance(error, ClientError):
            return error
        where = f"{self.host}{path}"
        if isinstance(error, urllib3.exceptions.NewConnectionError):  # a kind of timeout to urllib3
            return ClientError(errors.UNREACHABLE, f"{where}: {_one_line(error)}")
        if isinstance(error, (urllib3.exceptions.TimeoutError, TimeoutError)):
            return self._timed_out(path, "no answer")
        if isinstance(error, (urllib3.exceptions.ProtocolError, urllib3.exceptions.DecodeError)):
            return ClientError(errors.UNREACHABLE, f"{where}: the connection was cut: {_one_line(error)}")
        reason = error.reason if isinstance(error, ApiException) else error
        return ClientError(errors.UNREACHABLE, f"{where}: {_one_line(reason)}")


def _patiently(call: Callable[[], bytes]) -> bytes:
    """Once more after a 429 that asks for a short wait: the server did not look at the request."""
    try:
        return call()
    except ClientError as error:
        wait = error.retry_after
        if error.kind != errors.THROTTLED or wait is None or wait > SHORT_RETRY_SECONDS:
            raise
        time.sleep(wait)
    return call()


def refusal(
    status: int, body: bytes, path: str, retry_after: str | None = None, *, write: bool = False
) -> ClientError:
    """A status other than 200 as a ClientError, with the server's own words and the wait it asks for."""
    try:
        said = _status.decode(body)
    except msgspec.MsgspecError:
        said = _Status(message=body.decode("utf-8", "replace"))
    wait = said.details.retry_after_seconds if said.details else None
    if wait is None and retry_after and retry_after.strip().isdigit():
        wait = float(retry_after)
    words = _one_line(said.message or said.reason) or "no reason given"
    # A version that this server has not come to yet will not do as a resume point, no more than one long gone.
    kind = errors.EXPIRED if status == 504 and _FUTURE in words else kind_of_status(status, write=write)
    own = (said.message or said.reason).strip()
    return ClientError(kind, f"{path}: {status}: {words}", status=status, retry_after=wait, said=own)


def _one_line(error: Any) -> str:
    """The text of an error on one line, cut to a readable length."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _MESSAGE_LENGTH else text[:_MESSAGE_LENGTH] + " …"


def _set_timeout(response: urllib3.HTTPResponse, seconds: float) -> None:
    """Bound the silence between two reads of an open stream. http.client gives the socket away to the response
    when the server will close the connection, so it is looked for in both places."""
    holder: Any = response.connection
    found: Any = getattr(holder, "sock", None)
    if found is None:
        stream: Any = getattr(getattr(response, "_fp", None), "fp", None)
        found = getattr(getattr(stream, "raw", None), "_sock", None)
    if hasattr(found, "settimeout"):
        found.settimeout(seconds)


_clients: dict[tuple[str, str, float, float], tuple[float, KubeClient]] = {}


def client_for(
    kubeconfig: str, context: str = "", *, connect_timeout: float = 5.0, read_timeout: float = 30.0
) -> KubeClient:
    """The process's client for a cluster; a new one once the kubeconfig file has changed."""
    key = (kubeconfig, context, connect_timeout, read_timeout)
    try:
        changed = os.stat(kubeconfig).st_mtime
    except OSError as error:
        raise ClientError(errors.BAD_CONFIG, f"kubeconfig {kubeconfig}: {error.strerror}") from error
    found = _clients.get(key)
    if found is not None and found[0] == changed:
        return found[1]
    if found is not None:
        found[1].close()
    client = KubeClient(kubeconfig, context, connect_timeout, read_timeout)
    _clients[key] = (changed, client)
    return client
