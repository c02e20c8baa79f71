"""The window part of every filter form. Input: `window`, `from`, `to` of a query; output: `form.window`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.core.windows import Window, WindowError, parse_window


class WindowForm(forms.Form):
    """`window` is a length back from now ("24h", "7d"); `from`/`to` are times or dates, `to` exclusive. `longest`: how long the
    window may be, and what to say of a longer one, unless something else is wrong."""

    default_window = "24h"
    longest: tuple[timedelta, str | Promise] | None = None

    window = forms.CharField(label=_("Window"), required=False, max_length=16)

    def __init__(self, data: Mapping[str, Any], *, now: datetime) -> None:
        super().__init__(data)
        self.now = now
        self._window: Window | None = None

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        try:
            self._window = parse_window(
                now=self.now,
                text=cleaned.get("window", ""),
                start_text=cleaned.get("from", ""),
                end_text=cleaned.get("to", ""),
                default=self.default_window,
            )
        except WindowError as error:
            self.add_error("from" if cleaned.get("from") or cleaned.get("to") else "window", str(error))
        if self.longest is not None and not self.errors:
            length, too_long = self.longest
            if self.time_window.length > length:
                self.add_error("window", str(too_long))
        return cleaned

    @property
    def time_window(self) -> Window:
        """The parsed window; only after `is_valid()`."""
        if self._window is None:
            raise ValueError("the form is not valid")
        return self._window


# `from` is a keyword of Python, so that the two fields cannot be written in the class body.
WindowForm.declared_fields["from"] = forms.CharField(label=_("From"), required=False, max_length=40)
WindowForm.declared_fields["to"] = forms.CharField(label=_("To (exclusive)"), required=False, max_length=40)
