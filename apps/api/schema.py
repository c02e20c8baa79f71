"""OpenAPI from what the views already say: the shared filter gives the parameters, the item serializer the rows.

`documented` is the only place that knows drf-spectacular. Descriptions are in English whatever the language of the
request; machine-readable names never change with it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

from django import forms
from django.utils import translation
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import (
    OpenApiParameter,
    OpenApiResponse,
    extend_schema,
    extend_schema_view,
    inline_serializer,
)
from rest_framework import serializers

from apps.api import schema_security
from apps.api.base import FRESHNESS, ListView, ReadView, SourceStateSerializer
from apps.api.fields import Instant, Text
from apps.api.pagination import DEFAULT_PAGE_SIZE

V = TypeVar("V", bound=type[ReadView])


class FaultSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """One parameter that is wrong; `code` is stable, `detail` translated."""

    parameter = Text()
    code = Text()
    detail = Text()


class ProblemSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """RFC 9457 problem document."""

    type = Text()
    title = Text()
    status = serializers.IntegerField(read_only=True)
    detail = Text()
    instance = Text()
    errors = FaultSerializer(many=True, read_only=True)  # type: ignore[assignment]


class RefusalSerializer(ProblemSerializer):
    """Why a request was not moved on. `code` is stable: role or own (403); moved, state, origin or what is in the way
    (409). `state`: the present one; after a move also the present `version`, and `who` brought it about."""

    code = Text()
    state = Text(allow_null=True)
    version = serializers.IntegerField(read_only=True, allow_null=True)
    who = Text(allow_null=True)


_REFUSALS = {
    403: "The caller sees it and may not do this.",
    409: "It is not where this can be done, or moved on since it was seen.",
    422: "The Idempotency-Key was used for another call.",
    428: "Say which version you saw.",
}
_IDEMPOTENCY = OpenApiParameter(
    name="Idempotency-Key",
    location=OpenApiParameter.HEADER,
    description="The same call with the same key is done once; remembered for 48 hours.",
)
_IF_MATCH = OpenApiParameter(
    name="If-Match",
    location=OpenApiParameter.HEADER,
    description="The ETag as it was seen, instead of `version`.",
)
_IF_NONE_MATCH = OpenApiParameter(
    name="If-None-Match",
    location=OpenApiParameter.HEADER,
    description="The ETag of the file that the caller has.",
)
_PROBLEMS = {
    (status, "application/problem+json"): OpenApiResponse(ProblemSerializer, description=text)
    for status, text in schema_security.PROBLEMS.items()
}


def documented(
    *,
    operation: str,
    summary: str,
    description: str = "",
    body: type[serializers.Serializer[Any]] | None = None,
    also: tuple[str, ...] = (),
) -> Callable[[V], V]:
    """Class decorator of a ListView or DetailView; without a description its module's docstring is taken. `body`: what
    the view takes by POST; without one it is read by GET. `also`: media types that it answers as a file, too."""

    def decorate(view: V) -> V:
        many = issubclass(view, ListView)
        schema = extend_schema(
            operation_id=operation,
            summary=summary,
            description=description or (sys.modules[view.__module__].__doc__ or "").strip(),
            tags=[view.route],
            parameters=[*_parameters(view), *schema_security.HEADERS],
            request=body,
            responses={
                (200, "application/json"): _envelope(view, operation, many=many),
                **{(200, media_type): OpenApiTypes.BINARY for media_type in also},
                **_PROBLEMS,
            },
        )
        return extend_schema_view(**{"post" if body else "get": schema})(view)

    return decorate


def documented_write(
    method: str,
    *,
    operation: str,
    summary: str,
    body: type[serializers.Serializer[Any]],
    answer: type[serializers.Serializer[Any]],
    status: int | tuple[int, ...] = 200,
    problems: tuple[int, ...] = (),
    refused_as: type[serializers.Serializer[Any]] = RefusalSerializer,
    keyed: bool = True,
    precondition: bool = False,
) -> Callable[[V], V]:
    """Class decorator for one write of a view: `status` of what was done, `problems` beside those of every route, those
    of 409 told as `refused_as`, of 403 too unless the caller may not write at all. `keyed`: it takes an Idempotency-Key;
    `precondition`: it takes If-Match."""

    def decorate(view: V) -> V:
        codes = (status,) if isinstance(status, int) else status
        answered = _detail_envelope(operation, answer)
        responses: dict[Any, Any] = {(code, "application/json"): answered for code in codes}
        refused = {
            (code, "application/problem+json"): OpenApiResponse(
                _refusal(code, refused_as), description=_REFUSALS[code]
            )
            for code in problems
        }
        schema = extend_schema(
            operation_id=operation,
            summary=summary,
            description=(sys.modules[view.__module__].__doc__ or "").strip(),
            tags=[view.route],
            parameters=[
                *([_IDEMPOTENCY] if keyed else []),
                *([_IF_MATCH] if precondition else []),
                *schema_security.HEADERS,
            ],
            request=body,
            responses={**responses, **_PROBLEMS, **refused},
        )
        return extend_schema_view(**{method: schema})(view)

    return decorate


def _refusal(code: int, refused_as: type[serializers.Serializer[Any]]) -> Any:
    """What is told with `code`. 403 is told by the view or before it is reached: to a token, without a CSRF token."""
    if code == 403:
        return {
            "anyOf": [{"$ref": f"#/components/schemas/{name}"} for name in (_name(refused_as), "Problem")]
        }
    return refused_as if code == 409 else ProblemSerializer


def _name(serializer: type[serializers.Serializer[Any]]) -> str:
    """What the serializer's component is called."""
    return serializer.__name__.removesuffix("Serializer")


def documented_file(*, operation: str, summary: str, media_types: tuple[str, ...]) -> Callable[[V], V]:
    """Class decorator of a view that hands out a file."""

    def decorate(view: V) -> V:
        files: dict[Any, Any] = {(200, media_type): OpenApiTypes.BINARY for media_type in media_types}
        schema = extend_schema(
            operation_id=operation,
            summary=summary,
            description=(sys.modules[view.__module__].__doc__ or "").strip(),
            tags=[view.route],
            parameters=[*_parameters(view), _IF_NONE_MATCH],
            responses={
                **files,
                304: OpenApiResponse(description="The file is still the one of If-None-Match."),
                **_PROBLEMS,
            },
        )
        return extend_schema_view(get=schema)(view)

    return decorate


def _detail_envelope(operation: str, item: type[serializers.Serializer[Any]]) -> serializers.Serializer[Any]:
    return _named(operation, "Answer", _envelope_fields() | {"result": item(read_only=True)})


def _named(operation: str, suffix: str, fields: dict[str, Any]) -> serializers.Serializer[Any]:
    name = "".join(part.title() for part in operation.split("-"))
    return inline_serializer(f"{name}{suffix}", fields)


def _envelope_fields() -> dict[str, Any]:
    return {
        "as_of": Instant(
            allow_null=True, help_text="Age of the oldest source; null when nothing was collected."
        ),
        "state": serializers.ChoiceField(choices=FRESHNESS, read_only=True),
        "state_label": Text(),
        "sources": SourceStateSerializer(many=True, read_only=True),
        "missing": SourceStateSerializer(
            many=True,
            read_only=True,
            help_text="Sources that never brought data: the answer leaves them out.",
        ),
    }


def _envelope(view: type[ReadView], operation: str, *, many: bool) -> serializers.Serializer[Any]:
    if not many:
        return _detail_envelope(operation, view.item)
    fields = _envelope_fields() | getattr(view, "extra_fields", {})
    fields["next"] = Text(allow_null=True, help_text="Path and query of the next page; null on the last.")
    fields["results"] = view.item(many=True, read_only=True)
    return _named(operation, "Page", fields)


def _parameters(view: type[ReadView]) -> list[OpenApiParameter]:
    found = form_parameters(view.filter_class.base_fields) if view.filter_class else []
    return [*found, *form_parameters(view.page_form.base_fields)] if issubclass(view, ListView) else found


def form_parameters(fields: dict[str, forms.Field]) -> list[OpenApiParameter]:
    with translation.override("en"):
        return [_parameter(name, field) for name, field in fields.items()]


def _parameter(name: str, field: forms.Field) -> OpenApiParameter:
    schema: dict[str, Any] = {"type": "string"}
    if isinstance(field, forms.IntegerField):
        schema = {"type": "integer"}
        if field.max_value is not None:
            schema |= {"minimum": field.min_value, "maximum": field.max_value}
    elif isinstance(field, forms.NullBooleanField | forms.BooleanField):
        schema = {"type": "boolean"}
    elif isinstance(field, forms.ChoiceField):
        choices = [str(value) for value, _label in list(field.choices) if value != ""]  # type: ignore[arg-type]
        schema = {"type": "string", "enum": choices}
    elif isinstance(field, forms.CharField) and field.max_length:
        schema |= {"maxLength": field.max_length}
    if name == "page_size":
        schema |= {"default": DEFAULT_PAGE_SIZE}
    text = str(field.help_text or field.label or "")
    return OpenApiParameter(name=name, type=schema, required=field.required, description=text)
