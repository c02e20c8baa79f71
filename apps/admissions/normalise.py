"""A text with what differs from case to case taken out, so that the same statement counts once. Pure.

Input: a cluster's text; output: the same with placeholders: <text> for what stands in quotes, <json> for braces, <uid>,
<name> for words that only names have (a slash, a dot inside, letters beside digits), <n> for numbers. Invariants: never
raises; time linear in the text; a text that is normal already stays as it is.
"""

from __future__ import annotations

import re

LONGEST_GROUP = 2_000

_PIECE = re.compile(
    r"""(?P<quoted>"[^"]{0,2000}"|`[^`]{0,2000}`|(?<![A-Za-z0-9])'[^']{0,2000}'(?![A-Za-z]))
      | (?P<json>\{[^{}]{0,2000}\})
      | (?P<kept><(?:text|json|uid|name|n)>)
      | (?P<uid>(?<![\w-])[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?![\w-]))
      | (?P<word>[A-Za-z0-9](?:[A-Za-z0-9_./:@+-]{0,500}[A-Za-z0-9])?)
    """,
    re.VERBOSE,
)
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[kMGTPE]i?|Ki|m|u|n|s|ms|h|%)?(?:\d+(?:\.\d+)?(?:m?s))?")
_KEPT = re.compile(r"[A-Za-z]+(?:[/-][A-Za-z]+)*")


def _placeholder(found: re.Match[str]) -> str:
    match found.lastgroup:
        case "quoted":
            return "<text>"
        case "json":
            return "<json>"
        case "uid":
            return "<uid>"
        case "word":
            return _word(found.group())
    return found.group()


def _word(word: str) -> str:
    if _NUMBER.fullmatch(word):
        return "<n>"
    named = "/" in word or "-" in word or not _KEPT.fullmatch(word)
    return "<name>" if named else word


def normalised(text: str) -> str:
    """At most LONGEST_GROUP characters of the text, without numbers, names and quotes, in single spaces."""
    return _PIECE.sub(_placeholder, " ".join(text[:LONGEST_GROUP].split()))[:LONGEST_GROUP]
