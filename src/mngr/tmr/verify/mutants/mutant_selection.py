"""Mutants: small faults in a program, at the lines that a test runs."""

from __future__ import annotations

import ast
import zlib
from collections.abc import Iterable, Mapping

from mngr.base.model import Struct
from mngr.tmr.verify.mutants.faults import Fault, list_faults

_ELSEWHERE = 3.0  # lowers the rank of a fault outside of any function, because every test runs those lines


class Mutant(Struct):
    """One edit: `old` becomes `new`, from `start` to `end` in the text of a file."""

    path: str
    line: int
    kind: str
    start: int
    end: int
    old: str
    new: str
    before: str = ""  # the whole line, for people
    after: str = ""

    def apply(self, text: str) -> str:
        """Return the text of the file with this fault."""
        return text[: self.start] + self.new + text[self.end :]

    @property
    def name(self) -> str:
        """Return the edit in a few words."""
        return f"{self.path}:{self.line} {self.kind} {_shorten_code(self.old)} → {_shorten_code(self.new)}"


def list_mutants(path: str, text: str, lines: Iterable[int]) -> list[Mutant]:
    """Return every known fault of these lines of a file, none for a text that is not valid Python."""
    return [_build_mutant(path, text, fault) for fault in list_faults(text, set(lines))]


def choose_mutants(
    sources: Mapping[str, str], lines: Mapping[str, Iterable[int]], n: int = 20, seed: int = 0
) -> list[Mutant]:
    """Return at most n mutants, spread over files, functions, lines and kinds; the same seed gives the same mutants."""
    pool = [
        (_list_use_keys(path, fault), _compute_random_rank(seed, path, fault), path, fault)
        for path in sorted(set(sources) & set(lines))
        for fault in list_faults(sources[path], set(lines[path]))
    ]
    use_counts: dict[object, int] = {}
    chosen: list[Mutant] = []
    while pool and len(chosen) < n:
        best = min(range(len(pool)), key=lambda at: _measure_similarity(*pool[at][:2], use_counts))
        places, _, path, fault = pool.pop(best)
        mutant = _build_mutant(path, sources[path], fault)
        if is_python(mutant.apply(sources[path])):
            chosen.append(mutant)
            for place in places:
                use_counts[place] = use_counts.get(place, 0) + 1
    return chosen


def _measure_similarity(places: tuple[object, ...], rank: float, use_counts: dict[object, int]) -> float:
    """Return a number that is lowest for the mutant that is least like those chosen so far."""
    line, kind, file, function = [use_counts.get(place, 0) for place in places]
    return 6 * line + 2 * kind + file + function + rank


def _list_use_keys(path: str, fault: Fault) -> tuple[object, ...]:
    return (path, fault.line), fault.kind, path, (path, fault.function)


def _compute_random_rank(seed: int, path: str, fault: Fault) -> float:
    """Return a pseudo-random number that does not depend on the other mutants."""
    words = f"{seed}\0{path}\0{fault.function}\0{fault.kind}\0{fault.old}\0{fault.new}\0{fault.line}"
    chance = zlib.crc32(words.encode("utf-8", "surrogatepass")) / 2**31
    return chance if fault.function else chance + _ELSEWHERE


def is_python(text: str) -> bool:
    """Return True if the text is a valid Python program."""
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True


def _build_mutant(path: str, text: str, fault: Fault) -> Mutant:
    begin = text.rfind("\n", 0, fault.start) + 1
    end = text.find("\n", fault.end)
    end = len(text) if end < 0 else end
    after = text[begin : fault.start] + fault.new + text[fault.end : end]
    return Mutant(
        path=path,
        line=fault.line,
        kind=fault.kind,
        start=fault.start,
        end=fault.end,
        old=fault.old,
        new=fault.new,
        before=text[begin:end].strip(),
        after=after.strip(),
    )


def _shorten_code(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 40 else f"{text[:39]}…"
