"""What no branch may bring along, and words of strangers made harmless."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from mngr.tmr.commits import changed_paths
from mngr.tmr.commits.trees import PathChange
from mngr.tmr.finding import Finding

MAX_FILE_BYTES = 50 << 20  # bytes of a file
LINK_MODE = "120000"
_SUBMODULE_MODE = "160000"
_HOOK_PATHS = frozenset(
    """applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg post-commit
    pre-rebase post-checkout post-merge pre-push pre-receive post-receive post-update reference-transaction push-to-checkout
    pre-auto-gc post-rewrite sendemail-validate fsmonitor-watchman post-index-change""".split()
)
_REFUSED_RULES = ("policy-name", "policy-module", "policy-link")
_TERMINAL_ESCAPES = re.compile(
    r"\x1b(?:\][^\x07\x1b]*(?:\x07|\x1b\\)?|\[[0-?]*[ -/]*[@-~]?|[PX^_][^\x1b]*(?:\x1b\\)?|.?)", re.S
)
_INVISIBLE_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
_HTML_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_TRAILER = re.compile(r"^\s*(?:mngr-[a-z]+|[a-z-]+-by|change-id)\s*:", re.I)
_DATE = re.compile(r"\d{1,10} [+-](?:0\d|1[0-3])[0-5]\d")
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def list_refusals(rows: Iterable[PathChange], sizes: Mapping[str, int], targets: Mapping[str, bytes]) -> list[Finding]:
    """Why a branch is not taken; `targets` is where its links lead."""
    found: dict[tuple[str, str], Finding] = {}
    for row in rows:
        if row.new_mode == "000000" and row.old_mode != _SUBMODULE_MODE:
            continue
        for finding in _check_row(row, sizes, targets):
            if finding.level == "refuse":
                found.setdefault((finding.rule, finding.path), finding)
    return list(found.values())


def _check_row(row: PathChange, sizes: Mapping[str, int], targets: Mapping[str, bytes]) -> Iterable[Finding]:
    yield from changed_paths.check_name(row.path)
    shown = clean_line(row.path)
    target = targets.get(row.new, b"").decode("utf-8", "replace") if row.new_mode == LINK_MODE else None
    for finding in changed_paths.check_mode(row.path, row.old_mode, row.new_mode, target, row.status, True):
        if finding.rule in _REFUSED_RULES:
            yield finding.replace(path=shown)
    size = sizes.get(row.new, 0)
    if row.new_mode != _SUBMODULE_MODE and size > MAX_FILE_BYTES:
        what = f"it has {size} bytes, more than {MAX_FILE_BYTES}; it was not read"
        yield Finding(rule="reduce-large", level="refuse", path=shown, what=what)
    if _is_hook(row.path):
        yield Finding(rule="reduce-hook", level="refuse", path=shown, what="it is a hook, which git would run")
    if row.path.lower().rpartition("/")[2] == ".gitmodules":
        what = "it names other repositories, which git would fetch"
        yield Finding(rule="policy-module", level="refuse", path=shown, what=what)


def _is_hook(path: str) -> bool:
    above, _, name = path.lower().rpartition("/")
    among = any(part.strip("._-") in ("hooks", "githooks", "git-hooks", "husky") for part in above.split("/"))
    return name in _HOOK_PATHS or (name == "update" and among)


def is_commit_id(name: object) -> bool:
    """Whether something can only be a commit's number, and never an option or another name."""
    return isinstance(name, str) and _COMMIT.fullmatch(name) is not None


def clean_line(text: str, most: int = 300) -> str:
    """One line of a stranger's, without what a terminal, a browser or git would obey."""
    return " ".join(_remove_unsafe_characters(text).split())[:most].strip()


def clean_body(text: str, most: int = 4000) -> str:
    """Several such lines; what looks like a trailer is not among them."""
    lines = [line.rstrip() for line in _remove_unsafe_characters(text).split("\n") if not _TRAILER.match(line)]
    return "\n".join(lines)[:most].strip()


def is_clean(text: str) -> bool:
    """Whether cleaning would take nothing away."""
    return _remove_unsafe_characters(text) == text


def _remove_unsafe_characters(text: str) -> str:
    return _HTML_TAG.sub("‹", _INVISIBLE_CHARACTERS.sub("", _TERMINAL_ESCAPES.sub("", text)))


def clean_author(name: str, mail: str) -> str:
    """An author as git writes one."""
    who = re.sub(r"[<>\n]", "", clean_line(name, 100)).strip(" .,:;\"'") or "unknown"
    where = re.sub(r"[<>\s]", "", clean_line(mail, 100)) or "unknown@localhost"
    return f"{who} <{where}>"


def clean_date(date: str) -> str:
    """A date as git writes one, the first of all where it is none."""
    return date if _DATE.fullmatch(date) else "0 +0000"
