"""Rejects branches with dangerous files: hooks, submodules, unsafe links and large files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mngr.tmr.commits import path_checks
from mngr.tmr.commits.clean_untrusted_text import clean_line
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
