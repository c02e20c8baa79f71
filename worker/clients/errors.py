"""The one exception that leaves worker/clients. Its `kind` is a value of observations.ErrorKind."""

from __future__ import annotations

UNREACHABLE = "unreachable"
TIMEOUT = "timeout"
UNAUTHORIZED = "unauthorized"
FORBIDDEN = "forbidden"
NOT_FOUND = "not_found"
EXPIRED = "expired"
THROTTLED = "throttled"
SERVER_ERROR = "server_error"
BAD_BODY = "bad_body"
BAD_CONFIG = "bad_config"

_BY_STATUS = {401: UNAUTHORIZED, 403: FORBIDDEN, 404: NOT_FOUND, 410: EXPIRED, 429: THROTTLED}


class ClientError(Exception):
    """A call that did not bring a usable answer.

    `status` is the HTTP status, 0 when there was none; `retry_after` the seconds that the server asked for."""

    def __init__(self, kind: str, message: str, *, status: int = 0, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.status = status
        self.retry_after = retry_after


def kind_of_status(status: int) -> str:
    """401 → "unauthorized" … 5xx → "server_error"; any other refusal is an answer that we cannot use."""
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return SERVER_ERROR if status >= 500 else BAD_BODY
