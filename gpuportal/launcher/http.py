"""Asking the portal over HTTP what a browser would ask, with the standard library only."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from http.cookiejar import CookieJar
from typing import Any

from .errors import LaunchError

SECONDS = 15
_AS_OF = re.compile(r"<main\b[^>]*\bdata-as-of=\"([^\"]*)\"")
_TOKEN = re.compile(r"name=\"csrfmiddlewaretoken\"\s+value=\"([^\"]+)\"")


def get_json(url: str) -> tuple[int, Any]:
    """(status, body) of a JSON answer; (0, None) when nobody answered or it was not JSON."""
    try:
        with _direct().open(url, timeout=SECONDS) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            try:
                return error.code, json.load(error)
            except ValueError:
                return error.code, None
    except (OSError, ValueError):
        return 0, None


def _direct(*handlers: urllib.request.BaseHandler) -> urllib.request.OpenerDirector:
    """Past any proxy of the environment: we only talk to this machine."""
    return urllib.request.build_opener(urllib.request.ProxyHandler({}), *handlers)


class Browser:
    """A logged-in visitor."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._opener = _direct(urllib.request.HTTPCookieProcessor(CookieJar()))

    def get(self, path: str) -> str:
        return self._ask(urllib.request.Request(self.url + path))  # noqa: S310 - our own http address

    def log_in(self, name: str, password: str) -> None:
        token = _TOKEN.search(self.get("/login/"))
        if token is None:
            raise LaunchError("the login page has no form")
        fields = {"username": name, "password": password, "csrfmiddlewaretoken": token.group(1), "next": "/"}
        request = urllib.request.Request(  # noqa: S310 - our own http address
            f"{self.url}/login/",
            data=urllib.parse.urlencode(fields).encode(),
            headers={"Referer": f"{self.url}/login/"},
        )
        page = self._ask(request)
        if as_of(page) is None and 'name="password"' in page:
            raise LaunchError(f"the portal refused the password of {name}")

    def _ask(self, request: urllib.request.Request) -> str:
        try:
            with self._opener.open(request, timeout=SECONDS) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                raise LaunchError(f"{request.selector} answered {error.code}") from error
        except OSError as error:
            raise LaunchError(f"{request.selector} did not answer: {error}") from error


def as_of(page: str) -> str | None:
    """The page's `data-as-of`: "" when it shows nothing observed, None when it has no such attribute."""
    found = _AS_OF.search(page)
    return None if found is None else found.group(1)
