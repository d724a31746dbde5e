"""Makes calls similar to those that a test makes, and reports their outcomes.

mngr adds this text to files of the implementation and decorates functions there with a probe. At each call, the probe
forks one child for each similar input. Nothing that a child does to the memory of the program lasts.
Standard library only, Python 3.9 or newer.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
import inspect
import io
import json
import os
import random
import select
import signal
import sys
import tempfile
import time
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_ATOMS = (type(None), bool, int, float, str, bytes)
_MAX_TEXT = 240  # characters of one outcome
_MAX_READ = 1 << 14  # bytes of one outcome in the pipe
_MAX_FILE = 1 << 16  # bytes of a file that is copied with other content
_CALL_SECONDS, _CALL_WAIT = 0.5, 3.0  # for one similar call: processor time, and time at all
_MAX_LEAVES = 8
_DAYS = 3_650 * 86_400.0  # by which clocks are moved
_VOWELS, _CONSONANTS = "aeiou", "bcdfghklmnprtvwz"
_TOOLS = ("pytest", "_pytest", "pluggy", "unittest", "conftest", "test_", "tests", "mngr")
_HIDDEN_VARIABLES = ("PYTEST", "MNGR", "CI", "TOX", "GITHUB", "TEST")


def describe(value: object, depth: int = 8) -> str:
    """Return a text that is the same for equal values, also for objects without their own repr."""
    if isinstance(value, _ATOMS) and type(value) in _ATOMS:
        return repr(value)
    if not depth:
        return type(value).__name__
    if isinstance(value, BaseException):
        return f"{type(value).__name__}({value})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{describe(k, depth - 1)}: {describe(v, depth - 1)}" for k, v in value.items()) + "}"
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(describe(item, depth - 1) for item in value)) + "}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(describe(item, depth - 1) for item in value)})"
    if isinstance(value, os.PathLike):
        return repr(os.fspath(value))
    attributes = getattr(value, "__dict__", None)
    if isinstance(attributes, dict) and not callable(value):
        shown = {name: part for name, part in attributes.items() if isinstance(name, str)}
        return f"{type(value).__name__}{describe(shown, depth - 1)}"
    return type(value).__name__


def measure_processor_time() -> float:
    """Return the seconds that this process and its ended children have used."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def shorten(text: str) -> str:
    """Return the text, or its beginning and a checksum."""
    checksum = zlib.crc32(text.encode("utf-8", "replace"))
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}... {checksum}"


# Similar inputs


class Leaf:
    """A part of the input that can have another value, and the steps that lead to it."""

    def __init__(self, steps: tuple[Any, ...], value: Any) -> None:
        self.steps, self.value = steps, value


def list_leaves(value: Any, steps: tuple[Any, ...] = (), depth: int = 5) -> Iterator[Leaf]:
    """Yield the parts of a value that can be replaced: numbers, texts, containers and files."""
    if isinstance(value, bool) or value is None or not depth:
        return
    if type(value) in (int, float, str, bytes) or isinstance(value, os.PathLike):
        yield Leaf(steps, value)
    elif type(value) in (list, tuple, dict, set):
        if value and len(steps) > 1:
            yield Leaf(steps, value)
        pairs = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
        if not isinstance(value, set):
            for key, item in pairs[:6]:
                yield from list_leaves(item, (*steps, ("item", key)), depth - 1)
    elif isinstance(getattr(value, "__dict__", None), dict) and not callable(value) and _is_of_project(type(value)):
        for name, item in list(value.__dict__.items())[:8]:
            yield from list_leaves(item, (*steps, ("attribute", name)), depth - 1)


def _is_of_project(kind: type) -> bool:
    file = getattr(sys.modules.get(kind.__module__), "__file__", None) or ""
    return bool(file) and "-packages" not in file and not file.startswith(sys.base_prefix + os.sep + "lib")


def replace_part(value: Any, steps: tuple[Any, ...], new: Any) -> Any:
    """Return the value with another part. Objects change in place, in a child."""
    if not steps:
        return new
    (how, name), *rest = steps
    if how == "attribute":
        object.__setattr__(value, name, replace_part(getattr(value, name), tuple(rest), new))
        return value
    part = replace_part(value[name], tuple(rest), new)
    if isinstance(value, tuple):
        return (*value[:name], part, *value[name + 1 :])
    changed = copy.copy(value)
    changed[name] = part
    return changed


def list_similar(value: Any, chance: random.Random) -> list[Any]:
    """Return values similar to this one, the most similar ones first."""
    if isinstance(value, (int, float)):
        step = 10 ** (len(str(value)) - len(str(value).rstrip("0"))) if isinstance(value, int) else 0.5
        first = [value + step, value - step, 3 * value, value + 10, 2 * value, value - 10, value + 1, value - 1]
        return [*first, value + 2 * step, value + chance.randrange(2, 99), -value, value * 10]
    if isinstance(value, str):
        path = _read_file(value)
        return path if path is not None else _list_similar_texts(value, chance)
    if isinstance(value, os.PathLike):
        return _read_file(os.fspath(value)) or []
    if isinstance(value, bytes):
        return [text.encode("latin-1", "replace") for text in _list_similar_texts(value.decode("latin-1"), chance)]
    if isinstance(value, dict):
        items = list(value.items())
        return [dict(items[:-1]), dict(items[1:]), dict(reversed(items))]
    if isinstance(value, set):
        return [set(sorted(value, key=repr)[1:])]
    items = list(value)
    shuffled = chance.sample(items, len(items))
    changed = [items[:-1], [*items, items[0]], items[::-1], items[1:], shuffled, [items[-1], *items]]
    return [type(value)(one) for one in changed]


class OtherFile:
    """A text for a copy of a file."""

    def __init__(self, path: str, text: str) -> None:
        self.path, self.text = path, text

    def write(self) -> str:
        """Write the copy, and return its path. It is the same in each process, because errors may name it."""
        name = f"similar-{zlib.crc32(self.text.encode('utf-8', 'replace'))}{os.path.splitext(self.path)[1]}"
        path = os.path.join(tempfile.gettempdir(), name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.text)
        return path


def _read_file(path: str) -> Any:
    """Return other contents for a file, or None if the text does not name one."""
    if not (os.sep in path or "." in path) or len(path) > 1_000 or "\0" in path or not os.path.isfile(path):
        return None
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_MAX_FILE)
    except (OSError, ValueError):
        return []
    chance = random.Random(len(text))
    lines = text.splitlines(keepends=True)
    texts = ["".join(lines[:-1]), text + "".join(lines[:1]), "".join(reversed(lines)), "".join(lines[1:])]
    mixed = [one for pair in zip(_list_similar_texts(text, chance), texts) for one in pair]  # noqa: B905 - unknown to Python 3.9
    return [OtherFile(path, one) for one in mixed]


def _list_similar_texts(text: str, chance: random.Random) -> list[str]:
    digits = "".join(chance.choice("123456789") if letter.isdigit() else letter for letter in text)
    letters = "".join(_replace_letter(letter, chance) for letter in text)
    position = chance.randrange(len(text)) if text else 0
    one = text[:position] + _replace_letter(text[position : position + 1], chance) + text[position + 1 :]
    words = text.split(" ")
    gaps = [at for at, letter in enumerate(text) if not letter.isalnum()] or [len(text)]
    gap = chance.choice(gaps)
    texts = [digits, letters, _replace_text(digits, chance), one, text + "a", text[:-1], text + text[-1:]]
    texts += [" ".join(reversed(words)), text[:gap] + text[gap : gap + 1] + text[gap:], text.swapcase(), text[1:]]
    texts += [f"{text} {words[0]}", " ".join([_replace_text(words[0], chance), *words[1:]])]
    return texts


def _replace_text(text: str, chance: random.Random) -> str:
    return "".join(_replace_letter(letter, chance) for letter in text)


def _replace_letter(letter: str, chance: random.Random) -> str:
    if not letter.isascii() or not letter.isalpha():
        return chance.choice("123456789") if letter.isdigit() else letter
    new = chance.choice(_VOWELS if letter.lower() in _VOWELS else _CONSONANTS)
    return new.upper() if letter.isupper() else new


def list_inputs(args: Any, seed: int, most: int) -> list[tuple[str, list[tuple[tuple[Any, ...], Any]]]]:
    """Return (kind, replacements) for similar inputs, in turn for each part of the input, and for useless ones."""
    leaves = list(list_leaves(args))
    passed = [leaf for leaf in leaves if all(how != "attribute" for how, _ in leaf.steps)]
    leaves = (passed or leaves)[:_MAX_LEAVES]
    chance = random.Random(f"{seed} {shorten(describe(args))}")
    options = [[(leaf, new) for new in list_similar(leaf.value, chance)] for leaf in leaves]
    inputs: list[tuple[str, list[tuple[tuple[Any, ...], Any]]]] = []
    seen = {describe(leaf.value) + repr(leaf.steps) for leaf in leaves}
    for rank in range(max(map(len, options), default=0)):
        for group in options:
            leaf, new = group[rank] if rank < len(group) else (None, None)
            text = (
                "" if leaf is None else (new.text if isinstance(new, OtherFile) else describe(new)) + repr(leaf.steps)
            )
            if leaf is not None and text not in seen and len(inputs) < most:
                seen.add(text)
                inputs.append(
                    ("similar" if _is_of_same_length(leaf.value, new) else "other_length", [(leaf.steps, new)])
                )
    together = [(group[0][0].steps, group[0][1]) for group in options if group and _is_scalar(group[0][0].value)]
    if len(together) > 1:
        inputs.append(("similar", together))
    inputs += [("useless", [(leaf.steps, new)]) for leaf in leaves[:3] for new in _list_useless(leaf.value)]
    return inputs


def _is_of_same_length(old: Any, new: Any) -> bool:
    is_sized = isinstance(old, (str, bytes, list, tuple)) and not isinstance(new, OtherFile)
    return not is_sized or len(old) == len(new)


def _is_scalar(value: object) -> bool:
    return isinstance(value, (int, float, str, bytes))


def _list_useless(value: object) -> list[Any]:
    """Return values from which no program gets a sensible result."""
    if isinstance(value, (str, os.PathLike)):
        path = os.fspath(value)
        return [OtherFile(path, "?!,?;=\1\n")] if _read_file(path) is not None else ["?!\1", None]
    return [None, "?!\1"] if isinstance(value, (int, float)) else []


# Calls in a child


class Probe:
    """Decorates functions. Each decorated function is also called with similar input."""

    def __init__(self, report: str, seed: int, most: int, seconds: float) -> None:
        self._report, self._seed, self._most, self._seconds = report, seed, most, seconds
        self._known: dict[str, set[str]] = {}

    def __call__(self, name: str) -> Callable[[Any], Any]:
        """Return a decorator for the function of this name."""

        def decorate(function: Any) -> Any:
            if not callable(function):
                return function
            if inspect.iscoroutinefunction(function):

                @functools.wraps(function)
                async def call_later(*args: Any, **keywords: Any) -> Any:
                    self.explore(name, function, args, keywords)
                    return await function(*args, **keywords)

                return call_later

            @functools.wraps(function)
            def call(*args: Any, **keywords: Any) -> Any:
                self.explore(name, function, args, keywords)
                return function(*args, **keywords)

            return call

        return decorate

    def explore(self, name: str, function: Any, args: Any, keywords: Any) -> None:
        """Report the outcomes of a call and of similar ones, for the first calls of each function."""
        known = self._known.setdefault(name, set())
        if getattr(sys, "_mngr_is_exploring", False) or len(known) >= 3 or self._seconds <= 0:
            return
        sys._mngr_is_exploring = True  # type: ignore[attr-defined]
        began = measure_processor_time()
        with contextlib.suppress(Exception):
            subject = [list(args), dict(keywords), list(sys.argv[1:]) if not args and not keywords else []]
            text = shorten(describe(subject))
            if text not in known:
                known.add(text)
                row = {"name": name, "input": text, "outcomes": self._list_outcomes(function, subject, began)}
                with open(self._report, "a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
        self._seconds -= measure_processor_time() - began
        sys._mngr_is_exploring = False  # type: ignore[attr-defined]

    def _list_outcomes(self, function: Any, subject: Any, began: float) -> list[list[str]]:
        """Return [kind, input, outcome] for the call itself, under other conditions, and with other input."""
        outcomes = []
        for kind in ("same", "same", "again", *_CONDITIONS):
            outcomes.append([kind, "", run_in_child(functools.partial(_call_as, kind, function, subject))])
        for kind, replacements in list_inputs(subject, self._seed, self._most):
            if measure_processor_time() - began > self._seconds / 2:  # later calls need the rest
                break
            shown = ", ".join(_show(new) for _, new in replacements)
            outcome = run_in_child(functools.partial(_call_with, function, subject, replacements))
            outcomes.append([kind, shorten(shown), outcome])
        return outcomes


def _show(new: Any) -> str:
    return f"a file with {new.text!r}" if isinstance(new, OtherFile) else describe(new)


def _call_with(function: Any, subject: Any, replacements: Any) -> str:
    for steps, new in replacements:
        if isinstance(new, OtherFile):
            new = new.write()
        subject = replace_part(subject, steps, new)
    return _call(function, subject)


def _call_as(kind: str, function: Any, subject: Any) -> str:
    if kind == "again":
        first = copy.deepcopy(subject)
        second = copy.deepcopy(subject)
        _call(function, first)
        return _call(function, second)
    if kind in _CONDITIONS:
        _CONDITIONS[kind](function)
    return _call(function, subject)


def _call(function: Any, subject: Any) -> str:
    args, keywords, words = subject
    if words:
        sys.argv[1:] = words
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            result = function(*args, **keywords)
            if inspect.iscoroutine(result):
                asyncio.events._set_running_loop(None)
                result = asyncio.run(result)
            elif inspect.isgenerator(result):
                result = [item for _, item in zip(range(50), result)]  # noqa: B905 - unknown to Python 3.9
            outcome = describe(result)
        except BaseException as failure:
            outcome = f"raises {type(failure).__name__}: {failure}"
    printed = out.getvalue() + error.getvalue()
    state = "" if not args or not _is_of_project(type(args[0])) else f" in {describe(args[0])}"
    return f"{outcome}{state}{f' and prints {printed!r}' if printed else ''}"


def run_in_child(call: Callable[[], str]) -> str:
    """Return what a call says in a forked child, or why it says nothing."""
    source, target = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_PROF, _CALL_SECONDS)
            os.close(source)
            null = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(null, descriptor)
            text = shorten(call())
        except BaseException as failure:
            text = f"unknown {type(failure).__name__}"
        with contextlib.suppress(BaseException):
            os.write(target, text.encode("utf-8", "replace")[:_MAX_READ])
        os._exit(0)
    os.close(target)
    data, end = b"", time.monotonic() + _CALL_WAIT
    while len(data) < _MAX_READ and select.select([source], [], [], max(0.0, end - time.monotonic()))[0]:
        part = os.read(source, _MAX_READ)
        if not part:
            break
        data += part
    os.close(source)
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(OSError):
        os.waitpid(pid, 0)
    return data.decode("utf-8", "replace") or "unknown"


# Other conditions, in a child


def _move_clocks(function: Any) -> None:
    import datetime

    real = {name: getattr(time, name) for name in ("time", "monotonic", "perf_counter")}

    def move(name: str) -> Callable[[], float]:
        return lambda: real[name]() + _DAYS

    clocks = {real[name]: move(name) for name in real}
    for name in real:
        setattr(time, name, clocks[real[name]])

    class LaterDatetime(datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.datetime.fromtimestamp(time.time(), tz)

        @classmethod
        def utcnow(cls) -> Any:
            return datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=time.time())

    class LaterDate(datetime.date):
        @classmethod
        def today(cls) -> Any:
            return datetime.date.fromtimestamp(time.time())

    others: dict[int, Any] = {id(old): new for old, new in clocks.items()}
    others.update({id(datetime.datetime): LaterDatetime, id(datetime.date): LaterDate})
    names = getattr(function, "__globals__", {})
    for name, value in list(names.items()):
        if id(value) in others:
            names[name] = others[id(value)]
    datetime.datetime, datetime.date = LaterDatetime, LaterDate  # type: ignore[misc]


def _change_directory(function: Any) -> None:
    os.chdir(tempfile.mkdtemp())


def _forget_test_tools(function: Any) -> None:
    for name in list(sys.modules):
        if name.startswith(_TOOLS) or name.rpartition(".")[2].startswith(("test_", "conftest")):
            del sys.modules[name]
    for name in list(os.environ):
        if name.startswith(_HIDDEN_VARIABLES):
            del os.environ[name]
    sys.argv[:] = ["program", *(word.replace("pytest-of", "data-of") for word in sys.argv[1:])]


_CONDITIONS: dict[str, Callable[[Any], None]] = {
    "later": _move_clocks,
    "elsewhere": _change_directory,
    "untested": _forget_test_tools,
}
