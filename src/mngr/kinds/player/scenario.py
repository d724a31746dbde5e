"""Parses and checks the scenarios of kind `player`. docs/concepts/player.md describes the grammar in full.

A scenario is JSON: a list of steps, or an object with `steps` and

    "start": "now"       play before the first message comes (by default the player waits for one)
    "lose_enters": N     ignore the first N presses of Enter, as some programs do
    "cases": [...]       different steps for some tasks: {"task": PATTERN, "steps": [...]}

A step is an object with one key, or one of the bare words.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PARK_REASONS = ("rate_limit", "quota", "login")
RESULT_FORMS = (
    "complete",
    "partial",
    "broken",
    "empty",
    "huge",
    "deep",
    "types",
    "words",
    "other",
    "half",
    "link",
    "pipe",
    "folder",
)
WEAKENINGS = ("asserts", "true", "return", "skip", "xfail", "delete", "conftest")
CRASH_KINDS = ("KILL", "SEGV", "ABRT", "TERM", "lost")
HOSTILE_KINDS = ("links", "names", "escapes", "big", "special", "deep", "many", "git")
_SCENARIO_KEYS = ("steps", "start", "lose_enters", "cases")
_USAGE_FIELDS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cost_usd")


def parse_scenario(text: str) -> dict[str, object]:
    """Return the scenario in `text`, with every step as [verb, value]; raise ValueError if it is not valid."""
    import json

    try:
        data = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if isinstance(data, list):
        data = {"steps": data}
    if not isinstance(data, dict) or not isinstance(data.get("steps", []), list):
        raise ValueError("a scenario must be a list of steps, or an object with the key steps")
    unknown = sorted(set(data) - set(_SCENARIO_KEYS))
    if unknown:
        raise ValueError(
            f"unknown key {unknown[0]!r}; the keys of a scenario are {', '.join(_SCENARIO_KEYS[:-1])} and {_SCENARIO_KEYS[-1]}"
        )
    start, lose = data.get("start", "message"), data.get("lose_enters", 0)
    if start not in ("now", "message"):
        raise ValueError(f"start must be now or message, not {start!r}")
    if not _is_number(lose):
        raise ValueError(f"lose_enters must be a number, not {lose!r}")
    scenario = {"steps": _parse_steps(data.get("steps", [])), "start": start, "lose_enters": lose}
    return {**scenario, "cases": _parse_cases(data["cases"])} if "cases" in data else scenario


def has_extra_steps(text: bytes) -> bool:
    """True when a parsed scenario needs more than `player.py`: cases, or verbs beyond BASIC_VERBS."""
    import json

    try:
        scenario = json.loads(text)
        return "cases" in scenario or any(verb not in BASIC_VERBS for verb, _ in scenario["steps"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return False  # not written by mngr, so more files would not help


def _parse_cases(data: Any) -> list[list[Any]]:
    """Return every case as [pattern, steps]."""
    if not isinstance(data, list):
        raise ValueError(f"cases must be a list, not {data!r}")
    cases: list[list[Any]] = []
    for number, case in enumerate(data, 1):
        if not _has_fields(case, task=_is_text, steps=lambda steps: isinstance(steps, list)):
            raise ValueError(
                f"case {number} must be an object with a pattern as task and a list as steps, not {case!r}"
            )
        cases.append([case["task"], _parse_steps(case["steps"], f"case {number}, ")])
    return cases


def _parse_steps(steps: list[Any], prefix: str = "") -> list[list[Any]]:
    return [_parse_step(f"{prefix}step {number}", step) for number, step in enumerate(steps, 1)]


def _parse_step(position: str, step: Any) -> list[Any]:
    if isinstance(step, str) and step in _VERBS_WITHOUT_VALUE:
        return [step, None]
    if not isinstance(step, dict) or len(step) != 1:
        choices = (
            ", ".join(f'"{verb_name}"' for verb_name in _VERBS_WITHOUT_VALUE[:-1]) + f' or "{_VERBS_WITHOUT_VALUE[-1]}"'
        )
        raise ValueError(f"{position} must be an object with one key, or one of the words {choices}, not {step!r}")
    verb, value = next(iter(step.items()))
    if verb not in _VALUE_CHECKS:
        raise ValueError(f"{position}: unknown step {verb!r}; the steps are {', '.join(VERBS)}")
    is_valid, expected = _VALUE_CHECKS[verb]
    if not is_valid(value):
        raise ValueError(f"{position}: {verb} must be {expected}, not {value!r}")
    return [verb, value]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9


def _is_line(value: Any) -> bool:
    return isinstance(value, int) and _is_number(value) and value > 0


def _has_fields(value: Any, **fields: Callable[[Any], bool]) -> bool:
    """True when the value is an object with exactly these fields and every field passes its check."""
    return (
        isinstance(value, dict)
        and set(value) == set(fields)
        and all(is_valid(value[k]) for k, is_valid in fields.items())
    )


def _make_choice_check(choices: tuple[str, ...]) -> tuple[Callable[[Any], bool], str]:
    return lambda value: isinstance(value, str) and value in choices, "one of " + ", ".join(choices)


def _is_park_value(value: Any) -> bool:
    if not isinstance(value, dict):
        return isinstance(value, str) and value in PARK_REASONS
    filled = {"seconds": 0, "text": "", "while": "", **value}
    reason = _make_choice_check(PARK_REASONS)[0]
    return _has_fields(filled, reason=reason, seconds=_is_number, text=_is_text, **{"while": _is_text})


def _is_usage_value(value: Any) -> bool:
    filled = {**dict.fromkeys(_USAGE_FIELDS, 0), "model": "", **value} if isinstance(value, dict) else None
    return _has_fields(filled, model=_is_text, **dict.fromkeys(_USAGE_FIELDS, _is_number))


_TEXT = (_is_text, "a string")
_NUMBER = (_is_number, "a number that is not negative")
_VALUE_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "reply": _TEXT,
    "commit": _TEXT,
    "ask": _TEXT,
    "permission": _TEXT,
    "sleep": _NUMBER,
    "exit": (lambda value: _is_number(value) and value in range(256), "a whole number up to 255"),
    "write": (
        lambda value: (
            _has_fields(value, path=_is_text, content=_is_text) or _has_fields(value, path=_is_text, append=_is_text)
        ),
        "an object with path and content, or with path and append",
    ),
    "run": _TEXT,
    "edit": (
        lambda value: _has_fields(value, path=_is_text, old=_is_text, new=_is_text),
        "an object with path, old and new",
    ),
    "result": (
        lambda value: isinstance(value, dict) or (isinstance(value, str) and value in RESULT_FORMS),
        f"an object with fields of result.json, or one of {', '.join(RESULT_FORMS)}",
    ),
    "spend": (_is_usage_value, f"an object with the numbers {', '.join(_USAGE_FIELDS)} and a model"),
    "weaken": _make_choice_check(WEAKENINGS),
    "crash": _make_choice_check(CRASH_KINDS),
    "flood": (lambda value: _is_number(value) and value <= 1000, "a number of megabytes up to 1000"),
    "park": (
        _is_park_value,
        f"{', '.join(PARK_REASONS[:-1])} or {PARK_REASONS[-1]}, or an object with reason, seconds, text and while",
    ),
    "retry": _NUMBER,
    "conflict": (
        lambda value: _has_fields(value, path=_is_text, line=_is_line),
        "an object with a path and a line number",
    ),
    "hostile": _make_choice_check(HOSTILE_KINDS),
}
_VERBS_WITHOUT_VALUE = ("wait", "hang", "test", "lie", "dirt", "deaf")
VERBS = (*_VALUE_CHECKS, *_VERBS_WITHOUT_VALUE)
BASIC_VERBS = ("reply", "commit", "ask", "permission", "sleep", "exit", "write", "wait", "hang")
