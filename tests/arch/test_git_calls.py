"""Checks that git runs guarded on everything that is not the user's own repository."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "mngr"
_CALLS = ("run", "run_checked", "find_repo", "find_commit", "is_bare", "has_branch", "list_dirty_files")
_SAFE_COMMANDS = ("git.SAFE_GIT", "git.ISOLATED_GIT", "git.build_guarded_git", "git_command")
# Functions in `agents/` that run plain git. Each works only on the user's own repository, or on a work dir that mngr has
# just created and that no agent has used yet.
_OWN_REPOSITORY = {
    "agents/create/create.py": {"_reserve"},
    "agents/create/planning.py": {"_choose_new_branch", "_use_existing_branch", "find_untrusted_content"},
    "agents/sandbox/bubblewrap.py": {"_make_private_home"},
    "agents/sync/pull.py": {"pull_agent", "_pull_to_target", "_pull_commits", "_fast_forward", "_find_checkout", "_merge"},
    "agents/sync/push.py": {"push_branch"},
    "agents/sync/quarantine.py": {"_import_objects"},  # fetches from the quarantine, after all checks
    "agents/workdir/discard_agent.py": {"discard_agent"},
    "agents/workdir/source.py": {"_get_remote_source"},  # a clone of the address that the user gave
    "agents/workdir/transfer.py": {
        "make_worktree", "copy_dirty_files", "_send_tree", "remove_work_dir", "delete_unused_branch",
    },
}  # fmt: skip
# Modules that name the program `git` themselves instead of a constant of `host/git.py`.
_OTHER_PROGRAMS = {
    "agents/create/planning.py",  # check-ref-format reads no repository
    "agents/sandbox/bubblewrap.py",  # the user's name and address
    "agents/workdir/source.py",  # clones the address that the user gave
    "base/paths.py",  # the user's safe.directory
    "host/batched_host.py", "host/git.py", "host/protocol.py", "host/remote_host.py", "providers/local.py",
    "kinds/mechanic/program/main.py", "kinds/mechanic/program/repair.py", "kinds/mechanic/program/project_sources.py",
    "kinds/player/player.py", "kinds/player/steps.py",  # agents, which run in their own place
    "providers/docker/images.py", "providers/ray/host_actor.py", "providers/shared/host_options.py",
    "providers/shared/host_preparation.py", "setup/doctor.py", "testkit/contract/mngr_program.py",
    "tmr/cleanroom/clean_room_program.py",  # runs inside the clean room
    "tmr/deliver/forge.py", "tutorial/coverage/help_text_reader.py", "tutorial/writing/sync.py",
}  # fmt: skip
# Shell programs that run git without the guard.
_UNGUARDED_SCRIPTS = {
    "doctor.sh", "host_facts.sh",  # ask for its version only
    "mirror.sh",  # creates a repository from the user's own, or from a copy of it that mngr made
    "create_user.sh",  # sets the author
}  # fmt: skip
_RUNS_GIT = re.compile(r"(^|[|;&({]|\bexec|\bif|!|&&|\|\|)\s*git (-|[a-z])", re.M)


def _is_git_program(text: str) -> bool:
    """True for the text of a shell program that runs git. Hints for people use no variables."""
    return "$" in text and _RUNS_GIT.search(text) is not None


def _iter_modules(folder: str = "") -> Iterator[tuple[str, ast.Module]]:
    for path in sorted((SOURCE / folder).rglob("*.py")):
        yield str(path.relative_to(SOURCE)), ast.parse(path.read_text())


def _iter_calls(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    """Yield each call of a function of `git` that runs git, with the name of the function around it."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if ast.unparse(node.func.value) == "git" and node.func.attr in _CALLS:
            around = [f for f in functions if f.lineno <= node.lineno <= (f.end_lineno or f.lineno)]
            yield max(around, key=lambda f: f.lineno).name, node


def _find_plain_calls(tree: ast.Module) -> set[str]:
    """Return the functions that call git without one of the safe commands."""
    return {name for name, call in _iter_calls(tree) if not any(word in ast.unparse(call) for word in _SAFE_COMMANDS)}


def test_plain_git_runs_only_on_the_users_own_repositories() -> None:
    plain = {module: names for module, tree in _iter_modules("agents") if (names := _find_plain_calls(tree))}
    assert plain == _OWN_REPOSITORY


def test_modules_take_the_git_command_from_one_place() -> None:
    found = set()
    for module, tree in _iter_modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.List | ast.Tuple) and node.elts:
                first = node.elts[0]
                if isinstance(first, ast.Constant) and first.value == "git":
                    found.add(module)
    assert found == _OTHER_PROGRAMS


def test_shell_programs_guard_git() -> None:
    unguarded = set()
    for path in (SOURCE / "host" / "scripts").glob("*.sh"):
        text = "\n".join(line for line in path.read_text().splitlines() if not line.startswith("#include "))
        code = re.sub(r"^\s*#.*$", "", text, flags=re.M)
        is_guarded = re.search(r"^\s*enter |\bguard [.a-z\"]|^guard\(\)|^enter\(\)", code, re.M)
        if re.search(r"(^|[^\w.$-])git (-|[a-z])", code) and not is_guarded:
            unguarded.add(path.name)
    assert unguarded <= _UNGUARDED_SCRIPTS, unguarded


def test_shell_text_in_modules_of_agents_runs_git_with_the_safe_variables() -> None:
    for module, tree in _iter_modules("agents"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_git_program(node.value):
                assert module in (
                    "agents/saved/existing_packs.py",  # sets the variables itself
                    "agents/saved/unfiltered_git.py", "agents/sync/quarantine.py",  # get SAFE_VARIABLES
                    "agents/sync/source_cache.py",  # creates an empty repository
                ), (module, node.value[:80])  # fmt: skip


def test_the_checks_find_an_unguarded_call() -> None:
    tree = ast.parse("def read(host, record):\n    return git.run(host, record.work_dir, 'status')\n")
    assert _find_plain_calls(tree) == {"read"}
    tree = ast.parse("def read(host, record):\n    return git.run(host, '.', 'log', git_command=git.SAFE_GIT)\n")
    assert _find_plain_calls(tree) == set()
    assert _is_git_program('cd "$1" && git -C y status')
