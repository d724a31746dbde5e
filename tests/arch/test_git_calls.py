"""Checks that git runs guarded on everything that is not the user's own repository.

mypy makes every caller of `host/git.py` name a git command. These tests find the callers that may use plain git, which obeys
all settings of a repository, and compare them with the lists below.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from mngr.host import git

SOURCE = Path(__file__).parents[2] / "src" / "mngr"
_MODULE = "<module>"
# The functions that name plain git (`git.GIT`) or the command of a source (`source.git_command`), which may be plain git.
# Each works only on the user's own repository, or on a worktree of it. `git.run` refuses plain git in the directory of a
# sandboxed agent, and plain git ignores a repository without a `.git`.
_PLAIN_GIT = {
    # The source of an agent. Its command is guarded if the source is another agent.
    "agents/create/create.py": {"_set_up"},
    "agents/create/content_trust.py": {"_is_in_checkout"},
    "agents/create/planning.py": {"_list_dirty_files"},
    "agents/sync/source_cache.py": {"copy_source_to_host", "_update_ref"},
    "agents/workdir/source.py": {_MODULE, "_get_remote_source"},  # also fetches from the address that the user gave
    "agents/workdir/transfer.py": {
        "make_copy", "write_index_tree", "_send_tree",
        "make_worktree", "remove_work_dir", "delete_unused_branch",  # a worktree shares the user's repository
    },
    "agents/workdir/project_setup.py": {"_list_untracked_rows"},  # a worktree; mirrors get the guard
    # The user's checkout, which receives or sends commits. The user's own hooks, filters and merge drivers run there.
    "agents/sync/pull.py": {"_fast_forward", "_merge"},
    "agents/sync/push.py": {"push_branch", "_push_commit"},
    "agents/sync/quarantine.py": {"_import_objects"},  # fetches from the quarantine, after all checks
    "cli/runs/tmr/run.py": {"run"},  # asks whether the checkout has uncommitted changes
    "tutorial/writing/writing_agent.py": {"check_clean"},
    # Reads from the user's repository, or fetches from it. A partial clone then fetches missing objects.
    "mapreduce/run_repo.py": {"_make_repo"},
    "tmr/deliver/branch.py": {"find_user_commits", "fetch_commit", "move_branch"},
    "tmr/prepare/prepare.py": {"_find_changed_files"},
    "tmr/verify/audit/audit_in_checkout.py": {"_read_versions"},
    "tmr/demo.py": {"create_sample_repo"},  # the sample project, which mngr has just written
}  # fmt: skip
# The functions that name the program `git` themselves instead of a constant of `host/git.py`.
_OTHER_PROGRAMS = {
    "host/git.py": {_MODULE, "build_guarded_git"},  # the constants
    # Commands that read no repository: a check of a name, settings, a clone of the address that the user gave.
    "agents/create/planning.py": {"_choose_new_branch"},
    "agents/sandbox/bubblewrap.py": {"_make_private_home"},
    "agents/workdir/source.py": {"_get_remote_source"},
    "agents/sync/source_cache.py": {"copy_source_to_host"},  # receives the user's objects in a repository of mngr
    "base/paths.py": {"_is_safe_directory"},
    "providers/ray/host_actor.py": {"_write_git_author"},
    "providers/shared/host_options.py": {"get_author"},
    # Agents and clean rooms, which run git in their own place.
    "kinds/mechanic/program/main.py": {"_read_committed"},
    "kinds/mechanic/program/project_sources.py": {"_iter_files"},
    "kinds/mechanic/program/repair.py": {"_build_author_options", "_run_git"},
    "kinds/player/player.py": {"_commit"},
    "kinds/player/work_and_fault_steps.py": {"_run_git"},
    "tmr/cleanroom/clean_room_program.py": {"run_git"},
    "tutorial/writing/write_missing_tests.py": {"_list_problems"},  # `exec` runs it in the agent's sandbox
    # The user's checkout.
    "tmr/deliver/forge.py": {"build_push_command"},  # also shown to the user as the command to type
    "testkit/contract/mngr_program.py": {"run_git"},  # repositories of tests
    # Words that are no commands.
    "base/trust/setting_trust_levels.py": {_MODULE}, "host/host_store.py": {_MODULE}, "kinds/mechanic/kind.py": {_MODULE},
    "kinds/player/scenario.py": {_MODULE}, "providers/shared/host_preparation.py": {_MODULE}, "setup/doctor.py": {_MODULE},
    "tmr/integrate/automatic_resolution.py": {"find_known_resolution"}, "tutorial/coverage/help_text_reader.py": {_MODULE},
}  # fmt: skip
# The modules whose shell programs run git.
_SHELL_TEXT = {
    "agents/saved/packs_in_user_repo.py",  # sets the variables itself
    "agents/saved/unfiltered_git.py", "agents/sync/quarantine.py",  # get SAFE_VARIABLES
    "agents/sync/source_cache.py",  # creates an empty repository and receives the user's objects
    "cli/runs/map.py",  # an example in the help
    "host/git.py",  # what git does by default, in the safe options
    "kinds/codex/kind.py", "providers/ray/work_backup.py",  # run where the agent runs: in its sandbox or on its host
    "providers/custom_commands/provider.py",  # sets the author on a new host
    "testkit/contract/client.py", "testkit/contract/connection_loss.py",  # repositories of tests
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


def _iter_modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield str(path.relative_to(SOURCE)), ast.parse(path.read_text())


def _find_places(tree: ast.Module, is_wanted: object) -> set[str]:
    """Return the names of the functions that contain a node for which `is_wanted` is true."""
    assert callable(is_wanted)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    places = set()
    for node in ast.walk(tree):
        if is_wanted(node):
            line = int(getattr(node, "lineno", 0))
            around = [f for f in functions if f.lineno <= line <= (f.end_lineno or f.lineno)]
            places.add(max(around, key=lambda f: f.lineno).name if around else _MODULE)
    return places


def _names_plain_git(node: ast.AST) -> bool:
    """True for `git.GIT` under any name of the module, and for the command of a source."""
    if isinstance(node, ast.Constant):
        return node.value == "GIT"  # getattr(git, "GIT")
    return isinstance(node, ast.Attribute) and node.attr in ("GIT", "git_command")


def _names_program(node: ast.AST) -> bool:
    """True for a list of words with the word `git`, wherever it is: `env` and others can come first."""
    if not isinstance(node, ast.List | ast.Tuple | ast.Set):
        return False
    return any(isinstance(item, ast.Constant) and item.value == "git" for item in node.elts)


def test_plain_git_runs_only_on_the_users_own_repositories() -> None:
    plain = {module: places for module, tree in _iter_modules() if (places := _find_places(tree, _names_plain_git))}
    assert plain == _PLAIN_GIT


def test_modules_take_the_git_command_from_one_place() -> None:
    found = {module: places for module, tree in _iter_modules() if (places := _find_places(tree, _names_program))}
    assert found == _OTHER_PROGRAMS


def test_modules_import_no_function_of_git_under_another_name() -> None:
    """So that the other tests see each command."""
    for module, tree in _iter_modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == "mngr.host.git":
                assert {(alias.name, alias.asname) for alias in node.names} <= {("Repo", None)}, module
            if isinstance(node, ast.ImportFrom) and node.module == "mngr.host":
                assert all(alias.asname is None for alias in node.names if alias.name == "git"), module


def test_no_function_chooses_the_git_command_for_its_caller() -> None:
    found = set()
    for module, tree in _iter_modules():
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef):
                continue
            optional = (
                [*node.args.posonlyargs, *node.args.args][-len(node.args.defaults) :] if node.args.defaults else []
            )
            optional += [
                name for name, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if default
            ]
            if any(argument.arg == "git_command" for argument in optional):
                found.add((module, node.name))
    assert found == set()


def test_shell_programs_guard_git() -> None:
    unguarded = set()
    for path in (SOURCE / "host" / "scripts").glob("*.sh"):
        text = "\n".join(line for line in path.read_text().splitlines() if not line.startswith("#include "))
        code = re.sub(r"^\s*#.*$", "", text, flags=re.M)
        is_guarded = re.search(r"^\s*enter |\bguard [.a-z\"]|^guard\(\)|^enter\(\)", code, re.M)
        if re.search(r"(^|[^\w.$-])git (-|[a-z])", code) and not is_guarded:
            unguarded.add(path.name)
    assert unguarded <= _UNGUARDED_SCRIPTS, unguarded


def test_shell_text_in_modules_runs_git_with_the_safe_variables() -> None:
    found = set()
    for module, tree in _iter_modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_git_program(node.value):
                found.add(module)
    assert found == _SHELL_TEXT


def test_plain_git_ignores_a_repository_without_its_own_git_directory() -> None:
    assert git.GIT[:3] == ("git", "-c", "safe.bareRepository=explicit")


def test_the_checks_find_an_unguarded_call() -> None:
    tree = ast.parse("def read(host, record):\n    return g.run(host, record.work_dir, git_command=g.GIT)\n")
    assert _find_places(tree, _names_plain_git) == {"read"}
    tree = ast.parse("def read(host, source):\n    return git.run(host, '.', 'log', git_command=source.git_command)\n")
    assert _find_places(tree, _names_plain_git) == {"read"}
    tree = ast.parse("def read(host):\n    return git.run(host, '.', 'log', git_command=git.SAFE_GIT)\n")
    assert _find_places(tree, _names_plain_git) == set()
    assert _find_places(ast.parse("run(['env', 'A=B', 'git', 'log'])"), _names_program) == {_MODULE}
    assert _is_git_program('cd "$1" && git -C y status')
