"""What a line of shell asks of a program, and of whom its status is."""

from __future__ import annotations

import re

from mngr.tmr.verify.legacy.escapes import INERT, program

_FILTERS = frozenset("head tail tee sort uniq tr cut wc sed awk cat less more nl rev column fold".split())
_EASES = re.compile(
    r"(?:^|\s)(--(?:dry-?run|no-?op|simulate|pretend|what-if|just-print|exit-zero|no-fail\w*|ignore-(?:errors|failures)|keep-going|"
    r"lenient|permissive|no-verify|no-checks?|no-strict|skip-(?:checks?|tests?|verif\w*|valid\w*|errors?|fail\w*|lint\w*|hooks?)|allow-fail\w*))(?![\w-])"
)
_STRICT = re.compile(
    r"(?:^|\s)(?:--(?:strict(?:-[\w-]+)?|pedantic|werror|warnings-as-errors|fatal-warnings|fail-[\w-]+|error-on-[\w-]+|exit-code|"
    r"check|verify|frozen|locked)|-Werror|-W error)(?![\w-])"
)
_QUIET = re.compile(
    r"(?:^|\s)(?:--(?:quiet|silent|no-warnings?|no-log\w*|log-level[= ](?:error|critical|fatal|off|none))|-q+|-W\s?ignore)(?![\w-])",
    re.I,
)


def is_eased(command: str) -> str:
    """The option by which a program is told to do nothing, or not to fail."""
    found = _EASES.search(command)
    return found[1] if found else ""


def hides_status(command: str) -> bool:
    """Whether the status of a line is not that of the program in it, but of what comes after it."""
    line = command.strip()
    if re.search(r"(?<!&)&$", line) or re.match(r"!\s|if\s", line):
        return True
    ends = [part.strip() for part in re.split(r"&&|\|\||[;\n]", line) if part.strip()]
    piped = [part.strip() for part in ends[-1].split("|")] if ends else []
    if len(piped) > 1 and program(piped[-1]) in _FILTERS and "pipefail" not in line:
        return not all(program(part) in INERT for part in piped)
    joints = re.findall(r"&&|\|\||[;\n]", line.rstrip(";\n "))
    last_alone = bool(joints) and joints[-1] != "&&" and program(ends[-1]) in INERT | _FILTERS
    strict = bool(re.search(r"\bset -\w*e", line)) and joints[-1:] != ["||"]
    return last_alone and not strict and not all(program(part) in INERT for part in ends)


def strictness(command: str) -> int:
    """How many options tell a program to take more for an error."""
    return len(_STRICT.findall(command))


def is_quiet(command: str, doc: str) -> bool:
    """Whether a program is told to say less, and that is not what the contract speaks of."""
    return bool(_QUIET.search(command)) and not re.search(r"\b(?:quiet\w*|silen\w*)\b|(?<!\w)-q\b", doc, re.I)


def has_remark(command: str) -> bool:
    """Whether options of a command stand behind the sign for remarks."""
    return bool(re.search(r"\S[ \t]+#[^'\"\n]*(?:^|\s)--?\w", command))
