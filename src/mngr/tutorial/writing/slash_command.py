"""`tutorial install-command`: installs the slash command `sync-tutorial-to-e2e-tests` for coding agents."""

from __future__ import annotations

import os

from mngr.agents.context import Context
from mngr.base import paths
from mngr.base.errors import MngrError, UsageError
from mngr.base.model import Struct
from mngr.tutorial.writing.test_update_prompt import RULES

COMMAND_NAME = "sync-tutorial-to-e2e-tests"
_COMMAND_TEXT = """\
---
description: update the e2e tests to match the tutorial script
---

Update this project's e2e tests to match its tutorial script.

1. Run `mngr tutorial check`. It reports every block that no test cites (gap), every citation of a block that has changed (stale,
   with a diff) and every citation of a block that does not exist (orphan).
2. Where only the wording changed, run `mngr tutorial check --fix` to rewrite the citation. Then make the test do what the block
   says now.
3. For each gap, write at least one test that cites the block, and one more for each way in which the commands can fail. Read the
   tests of the neighbouring blocks first.
4. Run the tests and `mngr tutorial check` again. You are done when the check exits with 0 and the tests pass.

{rules}"""


class InstalledCommand(Struct):
    """The files that mngr wrote."""

    paths: list[str]


def install_command(ctx: Context, agents: list[str]) -> InstalledCommand:
    """Write the command for each of these agents. Raise UsageError for an agent without slash commands."""
    root = paths.find_project_root(ctx.cwd) or ctx.cwd
    directories = {
        "claude": os.path.join(root, ".claude", "commands"),
        # Codex has only commands of the user, not of a project.
        "codex": os.path.join(os.path.expanduser(os.environ.get("CODEX_HOME") or "~/.codex"), "prompts"),
    }
    unknown = [name for name in agents if name not in directories]
    if unknown:
        raise UsageError(
            f"mngr cannot install the slash command for {unknown[0]!r}", "choose one of: " + ", ".join(directories)
        )
    written: list[str] = []
    for name in agents or list(directories):
        path = os.path.join(directories[name], f"{COMMAND_NAME}.md")
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        except OSError as error:
            raise MngrError(
                f"cannot create {os.path.dirname(path)}: {error.strerror}",
                f"check the permissions: ls -ld {os.path.dirname(os.path.dirname(path))}",
            ) from None
        ctx.local_host.write(path, _COMMAND_TEXT.replace("{rules}", RULES).encode(), 0o644)
        written.append(path)
    return InstalledCommand(paths=written)
