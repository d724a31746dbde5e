"""Whether a check that is gone was ever promised: its words against those of docstring and cited block."""

from __future__ import annotations

import ast
import re

from mngr.tmr.verify.legacy import values
from mngr.tmr.verify.legacy.checks import NEGATIVE, Check
from mngr.tmr.verify.legacy.scene import Scene
from mngr.tmr.verify.legacy.views import peel

_PLAIN = frozenset(
    "the and for with that are was has have not its this from stdout stderr output out err text value result results "
    "data exit_code json get items read_text exists is_file is_dir run lines args none true false".split()
)
_ASIDE = re.compile(r"\b(?:stderr|errors?|warns?|warning|progress|messages?|fails?|seconds?|quick|fast)\b", re.I)
_SAID = re.compile(r"\b(?:stderr|standard error|messages?|warns?|warnings?|complains?)\b", re.I)
_COUNTED = re.compile(
    r"\b(?:lines?|rows?|wide|width|long|length|short|size|columns?|count\w*|numbers?|many|only|exactly|each|every|all|"
    r"no|nothing|none|empty|blank|once|twice|one|two|three|four|five|six|seven|eight|nine|ten|most|least)\b",
    re.I,
)
_SHOWN = re.compile(r"\b(?:shown?|shows|prints?|printed|displays?|displayed|text|written|format\w*|repr\w*)\b", re.I)
_PRIVATE = re.compile(r"\._(?!_)\w|\bcall_count\b")
_WHOLE = frozenset(("eq", "full", "near"))
_LAYOUT = 10  # a number of lines or characters from which on nobody counts things


def promised(check: Check, scene: Scene, beside: list[Check]) -> bool:
    """Whether the contract, or what the test itself does, has anything of what a check says. `beside`: those that stay."""
    if len(values.words(scene.doc)) < 3 or check.kind in {"raises", "or", "empty"}:
        return True
    if isinstance(check.node, ast.Attribute) and check.node.attr == "exit_code":
        return True
    if "raised(" in check.subject or check.subject.startswith("gathered("):
        return True
    same = [one for one in beside if one.subject == check.subject and one.moment == check.moment]
    same = [one for one in same if not one.empty and not one.conditions and one.kind not in NEGATIVE]
    if _aside(check.node) and _SAID.search(scene.doc) and not any(one.subject == check.subject for one in beside):
        return True  # that something is said there at all
    inner = _aside(check.node) or _PRIVATE.search(check.subject)
    if check.kind in _WHOLE and not inner and not any(_near(one, check) for one in beside):
        return True  # nothing looks at it any more that was compared whole
    if _is_layout(check, scene, same) or _is_spelling(check, scene, same):
        return False
    said = {word for word in _words(check) if len(word) > 2 and not word.isdigit() and word not in _PLAIN}
    if not said:
        return not (check.kind in {"in", "search"} and _aside(check.node) and not _ASIDE.search(scene.doc))
    known = values.words(scene.doc, scene.inputs)
    pieces = {piece for word in said for piece in (word, *word.split("_")) if len(piece) > 2 and piece not in _PLAIN}
    return any(_alike(piece, word) for piece in pieces for word in known)


def _near(one: Check, other: Check) -> bool:
    """Whether two checks are about the same thing, or parts of it."""
    return one.subject == other.subject or one.subject in other.subject or other.subject in one.subject


def _is_layout(check: Check, scene: Scene, same: list[Check]) -> bool:
    """How long a text is, of which it is still checked what it says: nothing that was promised counts so far."""
    size = check.value
    if "len" not in check.views or not isinstance(size, int) or size < _LAYOUT:
        return False
    given = f"{scene.doc} {scene.inputs}"
    texts = [one for one in same if "len" not in one.views and one.kind != "true"]
    return bool(texts) and not re.search(rf"\b{size}\b", given) and not _COUNTED.search(scene.doc)


def _is_spelling(check: Check, scene: Scene, same: list[Check]) -> bool:
    """How a thing is written that is still compared itself, where the contract does not say that it is shown at all."""
    if check.kind not in {"eq", "in", "search", "starts"} or not isinstance(check.value, str):
        return False
    whole = [one for one in same if one.kind in _WHOLE and not one.views and not isinstance(one.value, str)]
    said = values.words(check.value) - values.words(check.subject)
    told = any(_alike(word, known) for word in said for known in values.words(scene.doc))
    return bool(whole) and bool(said) and not told and not _SHOWN.search(scene.doc)


def _aside(node: ast.expr) -> bool:
    """Whether it is not what a program is run for."""
    return isinstance(node, ast.Attribute) and node.attr in {
        "stderr",
        "err",
        "duration",
        "elapsed",
        "seconds",
    }


def _words(check: Check) -> set[str]:
    found = values.words(*values.literals(check.expected))
    node, _ = peel(check.node)
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute):
            found |= values.words(node.attr)
        else:
            found |= values.words(*values.literals(node.slice))
        node = node.value
    return found


def _alike(a: str, b: str) -> bool:
    return a == b or (min(len(a), len(b)) >= 4 and (a.startswith(b[: max(4, len(b) - 3)]) and b.startswith(a[:4])))
