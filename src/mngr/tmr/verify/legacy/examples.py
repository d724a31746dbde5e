"""Cases that a library makes up: whether the strategies they come from became narrower, and examples that are gone."""

from __future__ import annotations

import ast

from mngr.tmr.verify.legacy import values

_LEAST, _MOST = frozenset(("min_value", "min_size")), frozenset(("max_value", "max_size"))
_PLACES = {
    "integers": ("min_value", "max_value"),
    "floats": ("min_value", "max_value"),
    "text": ("alphabet",),
}
_FEW = frozenset(("sampled_from", "just", "booleans", "none", "one_of"))
_SIZE = 10  # from which on a size that is limited leaves enough


def narrowed(before: list[str], after: list[str]) -> str:
    """What in the new decorators leaves out cases that the old ones had."""
    old, new = _strategies(before), _strategies(after)
    for name, rows in old.items():
        for at, limits in enumerate(rows):
            now = new.get(name, [])[at : at + 1]
            if now and (found := _tighter(limits, now[0])):
                return f"{name}: {found}"
        if name not in new and _FEW & new.keys() - old.keys():
            return f"{name} was removed"
    return ""


def _strategies(texts: list[str]) -> dict[str, list[dict[str, object]]]:
    """All calls in decorators by their last names, each with what it is given."""
    found: dict[str, list[dict[str, object]]] = {}
    for text in texts:
        try:
            tree = ast.parse(text, mode="eval")
        except (SyntaxError, ValueError):
            continue
        for part in ast.walk(tree):
            if isinstance(part, ast.Call):
                name = values.text(part.func).rsplit(".", 1)[-1]
                places = _PLACES.get(name, ("elements",) if name == "sampled_from" else ())
                given = dict(zip(places, map(values.value, part.args), strict=False))
                given |= {str(k.arg): values.value(k.value) for k in part.keywords}
                found.setdefault(name, []).append(given)
    return found


def _tighter(old: dict[str, object], new: dict[str, object]) -> str:
    for name, now in new.items():
        then = old.get(name)
        if name == "alphabet" and now != then:
            return "fewer letters"
        listed = isinstance(now, list | tuple) and isinstance(then, list | tuple)
        if listed and len(now) < len(then):  # type: ignore[arg-type]
            return "fewer values to choose from"
        if name not in _LEAST | _MOST or not isinstance(now, int | float):
            continue
        free = then is None and "size" in name and name in _MOST and now >= _SIZE
        if then is None and not free:
            return f"{name} is now {now}"
        if isinstance(then, int | float) and (now > then if name in _LEAST else now < then):
            return f"{name} was {then} and is now {now}"
    return ""
