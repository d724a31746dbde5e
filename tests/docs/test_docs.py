"""The documents are true: their examples run, their links lead somewhere, and nothing is left out.

A fenced block whose first line carries a word after the language is run, block by block down the page, in a fresh
repository at `~/shop` with a home of its own:

    sh run        by sh -eu; it must end with 0
    python run    by the Python that has mngr; it must end with 0
    console run   after each `$ ` line its output; lines may be left out, and ids, hashes and ages differ
    python plugin is installed as a plugin for the blocks that follow
"""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mngr.base import config
from mngr.cli.framework.command_table import ALIASES, COMMAND_GROUPS, COMMANDS, get_module_name
from mngr.cli.framework.parse import parse_words
from mngr.kinds.coding_agent import FEATURES
from mngr.plugins import hooks as hookspecs
from mngr.plugins import loader
from tests.conftest import BIN_DIR, MngrProgram, kill_tmux_servers, run_git
from tests.support.paths import ROOT

PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("examples/**/*.md"),
        *ROOT.glob("src/mngr/testkit/sample/*.md"),
    ]
)
BLOCK = re.compile(r"^```(\w+) (run|plugin)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
VARIES = re.compile(r"\b[0-9a-f]{7,64}\b|\b\d+(\.\d+)?(ms|s|m)\b|\d{4}-\d\d-\d\d[T ][\d:.]+Z?")


@dataclass
class Reader:
    """Somebody who types what a page says."""

    user: Path
    shop: Path
    env: dict[str, str]
    plugins: list[str] = field(default_factory=list)

    def follow(self, language: str, how: str, text: str) -> None:
        if how == "plugin":
            self._install(text)
        elif language == "console":
            self._converse(text)
        else:
            script = self.user / "block"
            script.write_text(text)
            self._run([BIN_DIR / "python", script] if language == "python" else ["sh", "-eu", script])

    def _run(self, argv: list[str | Path], *, must: bool = True) -> str:
        done = subprocess.run(
            argv, cwd=self.shop, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert not must or done.returncode == 0, f"exit {done.returncode}\n{argv}\n{done.stdout}"
        return done.stdout

    def _converse(self, text: str) -> None:
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            said = self._run(["sh", "-c", command], must=False)
            left = iter(_plain(said))
            for line in _plain(shown.replace("/home/ann", str(self.user))):
                assert line in left, f"$ {command}\nsaid:\n{said}\nand not, or not in this order:\n{line}"

    def _install(self, text: str) -> None:
        name = f"page{len(self.plugins)}"
        self.plugins.append(name)
        site = self.user / "site"
        (site / f"{name}-1.dist-info").mkdir(parents=True)
        (site / f"{name}-1.dist-info" / "entry_points.txt").write_text(f"[mngr]\n{name} = {name}\n")
        (site / f"{name}.py").write_text(text)
        self.env["PYTHONPATH"] = str(site)


def _plain(text: str) -> list[str]:
    """Lines without what differs from run to run, and without regard for the width of columns."""
    return [" ".join(VARIES.sub("#", line).split()) for line in text.splitlines() if line.strip()]


@pytest.fixture
def reader(env: dict[str, str], repo: Path) -> Iterator[Reader]:
    user = Path(env["HOME"])
    del env["MNGR_HOME"]
    shop = user / "shop"
    repo.rename(shop)
    yield Reader(user, shop, env)
    kill_tmux_servers(user)


def _id(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [p for p in PAGES if BLOCK.search(p.read_text())], ids=_id)
def test_what_a_page_says_can_be_typed(page: Path, reader: Reader) -> None:
    for language, how, text in BLOCK.findall(page.read_text()):
        reader.follow(language, how, text)


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)", page.read_text())
    gone = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert gone == []


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_commands_in_passing_are_commands(page: Path) -> None:
    """`mngr …` within a sentence is parsed as the program would."""
    spans = re.findall(r"`mngr ([^`]+)`", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL))
    for words in [shlex.split(span) for span in spans if "…" not in span and span.split()[0].islower()]:
        name = next((n for n in (" ".join(words[:2]), ALIASES.get(words[0], words[0])) if n in COMMANDS), None)
        if name is None:
            assert words[0] in {"hello", *COMMAND_GROUPS}, f"mngr {' '.join(words)}"
            continue
        command = importlib.import_module(get_module_name(name)).COMMAND
        parse_words(
            command,
            [*words[len(name.split()) :], "--help"] if "--" not in words else words[len(name.split()) :],
        )


def test_every_hook_is_in_the_guide() -> None:
    guide = (ROOT / "docs" / "guide" / "plugins.md").read_text()
    hooks = [name for name in vars(hookspecs) if name.startswith("mngr_")]
    assert hooks
    assert [name for name in hooks if f"`{name}`" not in guide] == []


def test_what_each_coding_agent_has_is_in_the_guide() -> None:
    guide = (ROOT / "docs" / "guide" / "agents.md").read_text()
    rows = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in guide.splitlines() if "|" in line]
    head = rows.index(["kind", *FEATURES])
    coders = loader.CODING_KINDS
    kinds = [importlib.import_module(loader.KIND_MODULES[name]).make_kind(name, dict) for name in coders]
    has = [[kind.name, *("yes" if each in kind.features else "no" for each in FEATURES)] for kind in kinds]
    assert rows[head + 2 : head + 2 + len(kinds)] == has


def test_every_setting_is_on_its_page() -> None:
    page = (ROOT / "docs" / "concepts" / "settings.md").read_text()
    assert [
        key for key in config.SCHEMA if f"`{key.replace('*', 'NAME', 1)}`" not in page.replace("NAME.KEY", "NAME.*")
    ] == []


def test_every_command_is_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [name for name in COMMANDS if f"`{name}`" not in readme] == []


def test_every_file_of_an_agent_is_documented(mngr: MngrProgram) -> None:
    page = (ROOT / "docs/concepts/agent-files.md").read_text()
    mngr("create", "foo", "player", "--idle-timeout", "1h", "-S", "project.setup=true", "-m", "hello")
    mngr("label", "foo", "a=b")
    directory = mngr.get_agent_dir("foo")
    seen = {path.name for path in directory.iterdir()}
    mngr("stop", "foo")
    mngr("create", "bar", "--", "false")
    mngr("wait", "bar", "--state", "FAILED")
    seen |= {path.name for path in (*directory.iterdir(), *mngr.get_agent_dir("bar").iterdir())}
    assert seen >= {
        "agent.json",
        "env",
        "exit",
        "stopped",
        "limit",
        "setup.log",
        "screen",
        "status",
        "transcript.jsonl",
    }
    assert [name for name in sorted(seen) if f"`{name}`" not in page.replace("`outputs/`", "`outputs`")] == []


def test_a_page_that_is_wrong_is_found_out(reader: Reader) -> None:
    reader.follow("console", "run", "$ echo one; echo two 5s\none\ntwo 7s\n$ mngr list --ids\n")
    for wrong in ("$ echo one\ntwo\n", "$ printf 'a\\nb\\n'\nb\na\n"):
        with pytest.raises(AssertionError, match="and not, or not in this order"):
            reader.follow("console", "run", wrong)
    with pytest.raises(AssertionError, match="exit 1"):
        reader.follow("sh", "run", "false\ntrue\n")
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        reader.follow("python", "run", "1 / 0")
    assert run_git(reader.shop, "status", "--porcelain") == ""
