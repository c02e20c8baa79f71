"""Refusals as the real API server words them. Output: (HTTP status, Status body as a dict)."""

from __future__ import annotations

from typing import Any, NamedTuple

from simcluster.kinds import Kind

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
    "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
    "modified, or deleted between the time the first chunk was returned and now may show up in the list."
)
REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class Refused(Exception):
    """An answer that is not 2xx: its status, its body, and the wait that it asks for."""

    def __init__(self, status: int, body: dict[str, Any] | str, retry_after: int | None = None) -> None:
        super().__init__(f"{status}: {body}")
        self.status, self.body, self.retry_after = status, body, retry_after


def status(
    code: int,
    message: str,
    *,
    reason: str | None = None,
    details: dict[str, Any] | None = None,
    metadata: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A Status object; keys in the server's order."""
    body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": metadata or {}}
    body |= {"status": "Failure", "message": message}
    if reason or code in REASONS:
        body["reason"] = reason or REASONS[code]
    if details is not None:
        body["details"] = details
    return {**body, "code": code}


def _about(kind: Kind, name: str = "") -> dict[str, Any]:
    named = {"name": name} if name else {}
    return {**named, **({"group": kind.group} if kind.group else {}), "kind": kind.plural}


def unauthorized() -> Refused:
    return Refused(401, status(401, "Unauthorized"))


def forbidden(user: str, verb: str, kind: Kind, name: str, namespace: str) -> Refused:
    subject = f'{kind.qualified} "{name}"' if name else kind.qualified
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    words = (
        f'{subject} is forbidden: User "{user}" cannot {verb} resource "{kind.plural}" '
        f'in API group "{kind.group}" {where}'
    )
    return Refused(403, status(403, words, details=_about(kind, name)))


def no_such_path() -> Refused:
    """The plain text that an API server answers for a group or kind that is not installed."""
    return Refused(404, "404 page not found\n")


def not_found(kind: Kind, name: str) -> Refused:
    return Refused(404, status(404, f'{kind.qualified} "{name}" not found', details=_about(kind, name)))


def conflict(kind: Kind, name: str) -> Refused:
    words = (
        f'Operation cannot be fulfilled on {kind.qualified} "{name}": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    return Refused(409, status(409, words, details=_about(kind, name)))


def already_exists(kind: Kind, name: str) -> Refused:
    body = status(
        409, f'{kind.qualified} "{name}" already exists', reason="AlreadyExists", details=_about(kind, name)
    )
    return Refused(409, body)


def not_allowed() -> Refused:
    return Refused(405, status(405, "the server does not allow this method on the requested resource"))


def bad_request(message: str) -> Refused:
    return Refused(400, status(400, message))


def bad_version(text: str) -> Refused:
    return bad_request(
        f'invalid resource version: resourceVersion: Invalid value: "{text}": '
        f'strconv.ParseUint: parsing "{text}": invalid syntax'
    )


def expired_token(token: str) -> Refused:
    return Refused(410, status(410, _TOO_OLD, metadata={"continue": token}))


def too_old(message: str) -> dict[str, Any]:
    """The object of the ERROR event that a watch from a compacted version gets."""
    return status(410, message, reason="Expired")


def from_the_future(asked: int, current: int) -> Refused:
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    words = f"Timeout: Too large resource version: {asked}, current: {current}"
    details = {"causes": causes, "retryAfterSeconds": 1}
    return Refused(504, status(504, words, details=details), retry_after=1)


class Cause(NamedTuple):
    """One field that is wrong."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"


def invalid(kind: Kind, name: str, causes: list[Cause]) -> Refused:
    """422 of schema validation and CEL rules."""
    qualified = f"{kind.api_kind}.{kind.group}" if kind.group else kind.api_kind
    said = ", ".join(f"{cause.field}: {cause.message}" for cause in causes)
    if len(causes) > 1:
        said = f"[{said}]"
    listed = [{"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes]
    group = {"group": kind.group} if kind.group else {}
    details = {"name": name, **group, "kind": kind.api_kind, "causes": listed}
    return Refused(422, status(422, f'{qualified} "{name}" is invalid: {said}', details=details))


def unprocessable() -> Refused:
    """422 of a JSON patch whose `test` failed or whose path is not there."""
    words = "the server rejected our request due to an error in our request"
    return Refused(422, status(422, words, details={}))


def denied_by_webhook(name: str, message: str) -> Refused:
    words = f'admission webhook "{name}" denied the request: {message}'
    return Refused(403, status(403, words))


def denied_by_volcano(message: str) -> Refused:
    """Volcano's webhook refuses with 400 and without a reason."""
    body = status(400, f'admission webhook "validatequeue.volcano.sh" denied the request: {message}')
    del body["reason"]
    return Refused(400, body)
