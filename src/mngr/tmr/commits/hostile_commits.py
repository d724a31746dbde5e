"""Rejects branches with dangerous files, and cleans untrusted text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from mngr.tmr.commits import path_checks
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
    """Return why a branch is rejected; `targets` holds the targets of its links."""
    refusals: dict[tuple[str, str], Finding] = {}
    for row in rows:
        if row.new_mode == "000000" and row.old_mode != _SUBMODULE_MODE:
            continue
        for finding in _check_row(row, sizes, targets):
            if finding.level == "refuse":
                refusals.setdefault((finding.rule, finding.path), finding)
    return list(refusals.values())


def _check_row(row: PathChange, sizes: Mapping[str, int], targets: Mapping[str, bytes]) -> Iterable[Finding]:
    """Yield findings about a changed path: its name, type, size, and whether git would act on it."""
    yield from path_checks.check_name(row.path)
    shown = clean_line(row.path)
    target = targets.get(row.new, b"").decode("utf-8", "replace") if row.new_mode == LINK_MODE else None
    for finding in path_checks.check_mode(row.path, row.old_mode, row.new_mode, target, row.status, True):
        if finding.rule in _REFUSED_RULES:
            yield finding.replace(path=shown)
    size = sizes.get(row.new, 0)
    if row.new_mode != _SUBMODULE_MODE and size > MAX_FILE_BYTES:
        what = f"it has {size} bytes, more than the limit of {MAX_FILE_BYTES}; mngr did not read it"
        yield Finding(rule="reduce-large", level="refuse", path=shown, what=what)
    if _is_hook(row.path):
        yield Finding(rule="reduce-hook", level="refuse", path=shown, what="it is a git hook, which git would run")
    if row.path.lower().rpartition("/")[2] == ".gitmodules":
        what = "it names submodules, which git would fetch"
        yield Finding(rule="policy-module", level="refuse", path=shown, what=what)


def _is_hook(path: str) -> bool:
    """True when a path is that of a git hook."""
    folder, _, name = path.lower().rpartition("/")
    is_in_hook_dir = any(part.strip("._-") in ("hooks", "githooks", "git-hooks", "husky") for part in folder.split("/"))
    return name in _HOOK_PATHS or (name == "update" and is_in_hook_dir)


def is_commit_id(name: object) -> bool:
    """True when a value is a full commit id, which git cannot mistake for an option or another name."""
    return isinstance(name, str) and _COMMIT.fullmatch(name) is not None


def clean_line(text: str, max_length: int = 300) -> str:
    """Return untrusted text as one line, without anything that a terminal, a browser or git would interpret."""
    return " ".join(_remove_unsafe_characters(text).split())[:max_length].strip()


def clean_body(text: str, max_length: int = 4000) -> str:
    """Return untrusted text as several clean lines, without lines that look like trailers."""
    lines = [line.rstrip() for line in _remove_unsafe_characters(text).split("\n") if not _TRAILER.match(line)]
    return "\n".join(lines)[:max_length].strip()


def is_clean(text: str) -> bool:
    """True when cleaning would remove nothing."""
    return _remove_unsafe_characters(text) == text


def _remove_unsafe_characters(text: str) -> str:
    return _HTML_TAG.sub("‹", _INVISIBLE_CHARACTERS.sub("", _TERMINAL_ESCAPES.sub("", text)))


def clean_author(name: str, mail: str) -> str:
    """Return an author in git's format."""
    clean_name = re.sub(r"[<>\n]", "", clean_line(name, 100)).strip(" .,:;\"'") or "unknown"
    clean_mail = re.sub(r"[<>\s]", "", clean_line(mail, 100)) or "unknown@localhost"
    return f"{clean_name} <{clean_mail}>"


def clean_date(date: str) -> str:
    """Return a date in git's format, or the epoch when it is invalid."""
    return date if _DATE.fullmatch(date) else "0 +0000"
