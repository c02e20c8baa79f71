"""Regular expressions that come from clusters, matched in bounded time. Pure.

Input: a pattern as Go's regexp reads it, and names; output: whether the pattern is found anywhere in a name. Python's
own `re` tries one way after the other, so that one short pattern may keep a page busy for ever. It is asked only where
the ways are plainly few (_Ways); elsewhere all are followed at once, a character at a time.
Invariants: the time is bounded by the square of the name's characters, or by them times the pattern's positions; what cannot be read is None,
never a guess: what Go has not (back references, looking around), and word boundaries, POSIX and Unicode classes,
flags, which names of nodes have no use for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

LONGEST_PATTERN = 1000
MOST_POSITIONS = 1000
"""Of a pattern whose repetitions are written out; Go has a limit of the same kind."""
MOST_LENGTHS, MOST_CHOICES = 2, 32
"""What `re` may have to try: see _Ways."""
REMEMBERED = 10_000
"""Positions that the remembered steps of one pattern may hold together, about a megabyte."""
_TOKEN = re.compile(
    r"""(?P<set>\[\^?\]?(?:\\[dDwWsS]|\\[^A-Za-z0-9]|[^\]\\\[])*\])
      | (?P<repeat>(?:[*+?]|\{[0-9]{1,4}(?:,[0-9]{0,4})?\})\??)
      | (?P<open>\((?:\?:|\?P?<[A-Za-z_]\w*>)?(?!\?))
      | (?P<close>\)) | (?P<or>\|)
      | (?P<start>\^|\\A) | (?P<end>\$|\\z)
      | (?P<char>\\[dDwWsS]|\\[^A-Za-z0-9]|[^\\()\[\]{}*+?|^$])""",
    re.VERBOSE,
)
_START, _END, _MATCH = "start", "end", "match"
Test = Callable[[str], object]


class _Unreadable(ValueError):
    pass


class _Program:
    """Positions of a pattern: what each tests or asserts, and where it leads without a character."""

    def __init__(self) -> None:
        self.tests: list[Test | str | None] = []
        self.ways: list[list[int]] = []

    def add(self, test: Test | str | None = None) -> int:
        if len(self.tests) >= MOST_POSITIONS:
            raise _Unreadable
        self.tests.append(test)
        self.ways.append([])
        return len(self.tests) - 1

    def reach(self, begin: frozenset[int], *, at_start: bool, at_end: bool) -> frozenset[int]:
        """All positions that can be reached from these without a character."""
        holds = {_START: at_start, _END: at_end}
        found, left = set(begin), list(begin)
        while left:
            place = left.pop()
            test = self.tests[place]
            if (test is None or (isinstance(test, str) and holds.get(test, False))) and self.ways[place]:
                fresh = [way for way in self.ways[place] if way not in found]
                found.update(fresh)
                left += fresh
        return frozenset(found)


@dataclass(slots=True)
class _Ways:
    """How many ways through a name `re` could try: (characters ^ `lengths`) · `choices`, at most. `endless`: more than
    that tells."""

    lengths: int = 1  # a match may begin anywhere
    choices: int = 1
    endless: bool = False

    def repeat(self, least: int, most: int | None, *, of_group: bool) -> None:
        if of_group:
            self.endless = True
        elif (least, most) == (0, 1):
            self.choices *= 2
        elif least != most:
            self.lengths += 1

    @property
    def are_few(self) -> bool:
        return not self.endless and self.lengths <= MOST_LENGTHS and self.choices <= MOST_CHOICES


# ---- reading ------------------------------------------------------------------------------------------------------
Part = tuple[int, int]
"""First and last position of what is read."""
Build = Callable[[_Program], Part]


class _Parser:
    """Reads a pattern into functions that write it into a program, once for every repetition."""

    def __init__(self, pattern: str) -> None:
        self._tokens = list(_tokens(pattern))
        self._next = 0
        self.ways = _Ways()

    def whole(self) -> Build:
        found = self._choice()
        if self._next < len(self._tokens):
            raise _Unreadable
        kinds = [kind for kind, _text in self._tokens]
        if kinds[:1] == [_START] and "or" not in kinds:
            self.ways.lengths -= 1
        return found

    def as_python(self) -> re.Pattern[str]:
        """The same for `re`; names have no line ends, so that "$" is the end there too."""
        words = {"open": ("(?<", "(?P<"), "end": (r"\z", r"\Z")}
        text = "".join(
            token.replace(*words[kind]) if kind in words else token for kind, token in self._tokens
        )
        return re.compile(text, re.ASCII)

    def _peek(self) -> str:
        return self._tokens[self._next][0] if self._next < len(self._tokens) else ""

    def _choice(self) -> Build:
        ways = [self._sequence()]
        while self._peek() == "or":
            self._next += 1
            ways.append(self._sequence())
        self.ways.choices *= len(ways)
        return ways[0] if len(ways) == 1 else lambda program: _either(program, ways)

    def _sequence(self) -> Build:
        parts = []
        while self._peek() not in ("", "or", "close"):
            parts.append(self._repeated())
        return lambda program: _one_after_other(program, parts)

    def _repeated(self) -> Build:
        of_group = self._peek() == "open"
        part = self._atom()
        if self._peek() != "repeat":
            return part
        least, most = _times(self._tokens[self._next][1])
        self.ways.repeat(least, most, of_group=of_group)
        self._next += 1
        if self._peek() == "repeat":  # Go has no such thing as a++
            raise _Unreadable
        return lambda program: _times_over(program, part, least, most)

    def _atom(self) -> Build:
        kind, text = self._tokens[self._next]
        self._next += 1
        if kind == "open":
            found = self._choice()
            if self._peek() != "close":
                raise _Unreadable
            self._next += 1
            return found
        if kind in (_START, _END):
            return lambda program: (place := program.add(kind), place)
        if kind not in ("set", "char"):
            raise _Unreadable
        test = re.compile(text, re.ASCII).fullmatch
        return lambda program: (place := program.add(test), place)


def _tokens(pattern: str) -> Iterator[tuple[str, str]]:
    place = 0
    while place < len(pattern):
        found = _TOKEN.match(pattern, place)
        if found is None or found.lastgroup is None:
            raise _Unreadable
        yield found.lastgroup, found[0]
        place = found.end()


def _times(text: str) -> tuple[int, int | None]:
    bare = text[:-1] if len(text) > 1 and text.endswith("?") else text
    if bare in ("*", "+", "?"):
        return {"*": (0, None), "+": (1, None), "?": (0, 1)}[bare]
    least, comma, most = bare[1:-1].partition(",")
    if not comma:
        return int(least), int(least)
    if most and int(most) < int(least):
        raise _Unreadable
    return int(least), int(most) if most else None


# ---- writing ------------------------------------------------------------------------------------------------------
def _either(program: _Program, ways: list[Build]) -> Part:
    first, last = program.add(), program.add()
    for way in ways:
        begin, end = way(program)
        program.ways[first].append(begin)
        program.ways[end].append(last)
    return first, last


def _one_after_other(program: _Program, parts: list[Build]) -> Part:
    first = last = program.add()
    for part in parts:
        begin, end = part(program)
        program.ways[last].append(begin)
        last = end
    after = program.add()
    program.ways[last].append(after)
    return first, after


def _times_over(program: _Program, part: Build, least: int, most: int | None) -> Part:
    first = last = program.add()
    for _time in range(least):
        begin, end = part(program)
        program.ways[last].append(begin)
        last = end
    after = program.add()
    if most is None:
        hub = program.add()
        begin, end = part(program)
        program.ways[last].append(hub)
        program.ways[hub] += [begin, after]
        program.ways[end].append(hub)
        return first, after
    for _time in range(most - least):
        program.ways[last].append(after)
        begin, end = part(program)
        program.ways[last].append(begin)
        last = end
    program.ways[last].append(after)
    return first, after


# ---- matching -----------------------------------------------------------------------------------------------------
class Searcher:
    """Finds one pattern in names. What follows which character is remembered, as names are much alike."""

    def __init__(self, program: _Program, first: int) -> None:
        self._program, self._first = program, frozenset((first,))
        self._steps: dict[tuple[frozenset[int], str], frozenset[int] | None] = {}
        self._remembered = 0
        self._begin = program.reach(self._first, at_start=True, at_end=False)
        self._anew = program.reach(self._first, at_start=False, at_end=False)
        self._dead = not any(callable(program.tests[place]) for place in self._anew) and not any(
            program.tests[place] in (_END, _MATCH) for place in self._anew
        )

    def search(self, name: str) -> bool:
        places: frozenset[int] | None = self._begin
        if self._matches(self._begin):
            return True
        for character in name:
            if places is None:
                return True
            if self._dead and places == self._anew:
                return False
            key = places, character
            try:
                places = self._steps[key]
            except KeyError:
                places = self._step(*key)
                self._remember(key, places)
        return places is None or self._matches(
            self._program.reach(
                places | (frozenset() if name else self._first), at_start=not name, at_end=True
            )
        )

    def _remember(self, key: tuple[frozenset[int], str], after: frozenset[int] | None) -> None:
        if self._remembered > REMEMBERED:
            self._steps, self._remembered = {}, 0
        self._steps[key] = after
        self._remembered += len(after or ()) + 1

    def _step(self, places: frozenset[int], character: str) -> frozenset[int] | None:
        """Where one more character leads, a match may begin there too; None when it was found."""
        tests, ways = self._program.tests, self._program.ways
        after = {
            way
            for place in places
            if callable(test := tests[place]) and test(character)
            for way in ways[place]
        }
        found = self._program.reach(frozenset(after), at_start=False, at_end=False) | self._anew
        return None if self._matches(found) else found

    def _matches(self, places: frozenset[int]) -> bool:
        return any(self._program.tests[place] == _MATCH for place in places)


@lru_cache(maxsize=512)
def searcher(pattern: str) -> Callable[[str], object] | None:
    """Tells whether a name has the pattern in it. None for a pattern that cannot be read, or is longer than anybody
    needs."""
    if len(pattern) > LONGEST_PATTERN:
        return None
    program = _Program()
    try:
        parser = _Parser(pattern)
        first, last = parser.whole()(program)
        program.ways[last].append(program.add(_MATCH))
    except (_Unreadable, re.error, RecursionError):
        return None
    return parser.as_python().search if parser.ways.are_few else Searcher(program, first).search
