"""Lists inputs that are similar to the input of a call.

Standard library only, Python 3.9 or newer. mngr loads this text before that of `similar_calls.py`, under the same names.
"""

from __future__ import annotations

import copy
import json
import os
import random
import sys
import tempfile
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_ATOMS = (type(None), bool, int, float, str, bytes)
_MAX_TEXT = 240  # characters of one outcome
_MAX_FILE = 1 << 16  # bytes of a file that is copied with other content
_MAX_LEAVES = 8
_MAX_ATTRIBUTES = 4  # of the objects that a function gets, beside its arguments
_MAX_DOCUMENTS = 40  # similar texts for one file
_VOWELS, _CONSONANTS = "aeiou", "bcdfghklmnprtvwz"


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
        items = ", ".join(describe(item, depth - 1) for item in value)
        return f"[{items}]" if isinstance(value, list) else f"({items})"
    if isinstance(value, os.PathLike):
        return repr(os.fspath(value))
    attributes = getattr(value, "__dict__", None)
    if isinstance(attributes, dict) and not callable(value):
        shown = {name: part for name, part in attributes.items() if isinstance(name, str)}
        return f"{type(value).__name__}{describe(shown, depth - 1)}"
    return _describe_opaque(value)


def _describe_opaque(value: object) -> str:
    """Return the text of an object of Python or a package, for example of a date, unless it names an address."""
    if callable(value) or is_of_project(type(value)):
        return type(value).__name__
    try:
        text = repr(value)
    except Exception:
        return type(value).__name__
    return type(value).__name__ if " at 0x" in text else text


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
    elif isinstance(getattr(value, "__dict__", None), dict) and not callable(value) and is_of_project(type(value)):
        for name, item in list(value.__dict__.items())[:8]:
            yield from list_leaves(item, (*steps, ("attribute", name)), depth - 1)


def is_of_project(kind: type) -> bool:
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
    documents = _list_documents(text, chance)
    if documents:
        return [OtherFile(path, one) for one in documents]
    lines = text.splitlines(keepends=True)
    texts = ["".join(lines[:-1]), text + "".join(lines[:1]), "".join(reversed(lines)), "".join(lines[1:])]
    mixed = [one for pair in zip(_list_similar_texts(text, chance), texts) for one in pair]  # noqa: B905 - unknown to Python 3.9
    return [OtherFile(path, one) for one in mixed]


def _list_documents(text: str, chance: random.Random) -> list[str]:
    """Return JSON texts in which one part has another value, or nothing if the text is not a JSON list or object."""
    try:
        document = json.loads(text)
    except ValueError:
        return []
    if not isinstance(document, (list, dict)) or not document:
        return []
    leaves = [Leaf((), document), *list_leaves(document)]
    options = [[(leaf, new) for new in _list_similar_parts(leaf.value, chance)] for leaf in leaves]
    texts: list[str] = []
    for rank in range(max(map(len, options))):
        for group in options:
            if rank < len(group) and not isinstance(group[rank][1], OtherFile):
                leaf, new = group[rank]
                texts.append(json.dumps(replace_part(document, leaf.steps, new)))
    return list(dict.fromkeys(texts))[:_MAX_DOCUMENTS]


def _list_similar_parts(value: Any, chance: random.Random) -> list[Any]:
    """Return similar values for a part of a document. Texts of another length come first: they change more results."""
    similar = list_similar(value, chance)
    return [*similar[4:], *similar[:4]] if isinstance(value, str) else similar


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
    inside = [leaf for leaf in leaves if any(how == "attribute" for how, _ in leaf.steps)]
    leaves = passed[:_MAX_LEAVES] + inside[: _MAX_ATTRIBUTES if passed else _MAX_LEAVES]
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
