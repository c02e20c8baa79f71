"""Reading the environment: every setting has one parser, and a bad value stops the start with one line.

`<NAME>_FILE` may name a file that holds the value, so that secrets stay out of the environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

T = TypeVar("T")
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")

_RATE = re.compile(r"([1-9][0-9]{0,8})/(s|min|h|d)")
_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86_400}


class BadSetting(Exception):
    """A setting that cannot be used: the text names the variable, the value's fault and the mend."""


class Environment:
    """Typed access to environment variables (`source` defaults to the process's own)."""

    def __init__(self, source: Mapping[str, str] | None = None) -> None:
        self.source = os.environ if source is None else source

    def raw(self, name: str) -> str | None:
        """The variable's text, or that of the file that `<name>_FILE` names; None when neither is set."""
        path = self.source.get(f"{name}_FILE")
        if path:
            try:
                return Path(path).read_text().strip()
            except OSError as error:
                raise BadSetting(f"{name}_FILE: cannot read {path}: {error.strerror}") from error
        value = self.source.get(name, "").strip()
        return value or None

    def _parse(self, name: str, default: T, parse: Callable[[str], T], wants: str) -> T:
        value = self.raw(name)
        if value is None:
            return default
        try:
            return parse(value)
        except ValueError as error:
            shown = "(hidden)" if "SECRET" in name or "URL" in name else repr(value)
            raise BadSetting(f"{name}: {shown} is not {wants}") from error

    def text(self, name: str, default: str = "") -> str:
        value = self.raw(name)
        return default if value is None else value

    def flag(self, name: str, default: bool) -> bool:
        def parse(value: str) -> bool:
            if value.lower() in {"1", "true", "yes", "on"}:
                return True
            if value.lower() in {"0", "false", "no", "off"}:
                return False
            raise ValueError

        return self._parse(name, default, parse, "one of 1, true, yes, on, 0, false, no, off")

    def integer(self, name: str, default: int, *, low: int, high: int) -> int:
        def parse(value: str) -> int:
            number = int(value)
            if not low <= number <= high:
                raise ValueError
            return number

        return self._parse(name, default, parse, f"a whole number from {low} to {high}")

    def rate(self, name: str, default: tuple[int, int] | None) -> tuple[int, int] | None:
        """(how many, in so many seconds) of "600/min"; None of "off": without a limit."""

        def parse(value: str) -> tuple[int, int] | None:
            if value.lower() == "off":
                return None
            match = _RATE.fullmatch(value)
            if match is None:
                raise ValueError
            return int(match[1]), _SECONDS[match[2]]

        return self._parse(name, default, parse, "a rate such as 10/s, 600/min or 5000/h, or off")

    def words(self, name: str, default: list[str]) -> list[str]:
        return self._parse(name, default, lambda v: [w.strip() for w in v.split(",") if w.strip()], "a list")

    def secret(self, name: str, *, shortest: int) -> str:
        def parse(value: str) -> str:
            if len(value) < shortest:
                raise ValueError
            return value

        return self._parse(name, "", parse, f"long enough (at least {shortest} characters)")

    def hosts(self, name: str, default: list[str]) -> list[str]:
        """Host names without scheme or port; a leading dot stands for every name below, `*` for any."""
        found = self.words(name, default)
        if any(re.fullmatch(r"\*|\.?[\w-]+(\.[\w-]+)*|\[[0-9A-Fa-f:.]+\]", host) is None for host in found):
            raise BadSetting(
                f"{name}: {','.join(found)!r} is not a list of host names such as portal.example.com"
            )
        return found

    def origins(self, name: str) -> list[str]:
        """Scheme and host, as a browser sends them."""
        found = self.words(name, [])
        if any(re.fullmatch(r"https?://[^/\s]+", origin) is None for origin in found):
            raise BadSetting(f"{name}: {','.join(found)!r} is not a list such as https://portal.example.com")
        return found

    def time_zone(self, name: str, default: str) -> str:
        def parse(value: str) -> str:
            try:
                return str(ZoneInfo(value))
            except (ZoneInfoNotFoundError, OSError) as error:
                raise ValueError from error

        return self._parse(name, default, parse, "a time zone such as Asia/Shanghai")

    def object_name(self, name: str, default: str) -> tuple[str, str]:
        """(namespace, name) of an object of Kubernetes."""

        def parse(value: str) -> tuple[str, str]:
            if not _OBJECT_NAME.fullmatch(value):
                raise ValueError
            namespace, _, found = value.partition("/")
            return namespace, found

        return self._parse(name, parse(default), parse, "namespace/name of an object")

    def choice(self, name: str, default: str, options: set[str]) -> str:
        def parse(value: str) -> str:
            if value not in options:
                raise ValueError
            return value

        return self._parse(name, default, parse, f"one of {', '.join(sorted(options))}")

    def url(self, name: str, default: str, schemes: set[str]) -> str:
        def parse(value: str) -> str:
            parts = urlsplit(value)
            if parts.scheme not in schemes or (parts.port is not None and parts.port == 0):
                raise ValueError
            return value

        return self._parse(
            name, default, parse, f"a URL with one of the schemes {', '.join(sorted(schemes))}"
        )
