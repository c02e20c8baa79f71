"""The one exception that leaves worker/clients. Its `kind` is a value of observations.ErrorKind, or, of writes only,
CONFLICT or REFUSED."""

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
CONFLICT = "conflict"
REFUSED = "refused"

_BY_STATUS = {401: UNAUTHORIZED, 403: FORBIDDEN, 404: NOT_FOUND, 410: EXPIRED, 429: THROTTLED}
_OF_WRITES = {400: REFUSED, 409: CONFLICT, 413: REFUSED, 415: REFUSED, 422: REFUSED}
_NO_ANSWER_TO_IT = frozenset({401, 408, 429})


class ClientError(Exception):
    """A call that did not bring a usable answer.

    `status` is the HTTP status, 0 when there was none; `retry_after` the seconds that the server asked for; `said` the
    server's own words, as they came."""

    def __init__(
        self, kind: str, message: str, *, status: int = 0, retry_after: float | None = None, said: str = ""
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.status = status
        self.retry_after = retry_after
        self.said = said

    @property
    def is_verdict(self) -> bool:
        """The server looked at the request and refused it: asking again would bring the same, and nothing was written.

        Of anything else a write may have been done or not (no answer, 5xx), or was not looked at (401, 408, 429)."""
        return 400 <= self.status < 500 and self.status not in _NO_ANSWER_TO_IT


def kind_of_status(status: int, *, write: bool = False) -> str:
    """401 → "unauthorized" … 5xx → "server_error"; any other refusal is an answer that we cannot use, or, of a write,
    the refusal of what was to be written."""
    found = _BY_STATUS.get(status) or (_OF_WRITES.get(status) if write else None)
    if found:
        return found
    return SERVER_ERROR if status >= 500 else BAD_BODY
