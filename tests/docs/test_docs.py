"""The documents are correct: their examples run, their links exist, and nothing is missing.

The test runs every fenced block whose first line has a word after the language, from top to bottom, in a fresh
repository at `~/shop` with its own home:

    sh run        run by sh -eu; the exit code must be 0
    python run    run by the Python that has mngr; the exit code must be 0
    console run   each `$ ` line is followed by its output; lines may be omitted, and ids, hashes and ages may differ
    python plugin installed as a plugin for the blocks that follow
"""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path

import pytest

from mngr.cli.framework.command_table import ALIASES, COMMAND_GROUPS, COMMANDS, get_module_name
from mngr.cli.framework.parse import parse_words
from mngr.kinds.coding_agent import FEATURES
from mngr.plugins import hooks as hookspecs
from mngr.plugins import loader
from mngr.testkit.contract.client import ProviderUnderTest
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
    """A user who types the examples of a page."""

    user: Path
    shop: Path
    env: dict[str, str]
    plugins: list[str] = field(default_factory=list)

    def follow(self, language: str, mode: str, text: str) -> None:
        """Run one block of a page."""
        if mode == "plugin":
            self._install(text)
        elif language == "console":
            self._converse(text)
        else:
            script = self.user / "block"
            script.write_text(text)
            self._run([BIN_DIR / "python", script] if language == "python" else ["sh", "-eu", script])

    def _run(self, argv: list[str | Path], *, must_succeed: bool = True) -> str:
        completed = subprocess.run(
            argv, cwd=self.shop, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert not must_succeed or completed.returncode == 0, f"exit {completed.returncode}\n{argv}\n{completed.stdout}"
        return completed.stdout

    def _converse(self, text: str) -> None:
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            output = self._run(["sh", "-c", command], must_succeed=False)
            remaining = iter(_plain(output))
            for line in _plain(expected.replace("/home/ann", str(self.user))):
                assert line in remaining, f"$ {command}\nsaid:\n{output}\nand not, or not in this order:\n{line}"

    def _install(self, text: str) -> None:
        name = f"page{len(self.plugins)}"
        self.plugins.append(name)
        site = self.user / "site"
        (site / f"{name}-1.dist-info").mkdir(parents=True)
        (site / f"{name}-1.dist-info" / "entry_points.txt").write_text(f"[mngr]\n{name} = {name}\n")
        (site / f"{name}.py").write_text(text)
        self.env["PYTHONPATH"] = str(site)


def _plain(text: str) -> list[str]:
    """Return the lines without parts that vary from run to run, and with single spaces."""
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
def test_the_examples_of_a_page_run(page: Path, reader: Reader) -> None:
    for language, mode, text in BLOCK.findall(page.read_text()):
        reader.follow(language, mode, text)


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_relative_links_of_a_page_exist(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)", page.read_text())
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_commands_in_sentences_can_be_parsed(page: Path) -> None:
    """`mngr …` in a sentence is parsed as the program would parse it."""
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


def test_every_hook_is_in_the_plugin_guide() -> None:
    guide = (ROOT / "docs" / "guide" / "plugins.md").read_text()
    hooks = [name for name in vars(hookspecs) if name.startswith("mngr_")]
    assert hooks
    assert [name for name in hooks if f"`{name}`" not in guide] == []


def test_the_guide_describes_each_field_of_a_provider_under_test() -> None:
    guide = (ROOT / "docs" / "guide" / "providers.md").read_text()
    rows = [line.split("|")[1] for line in guide.splitlines() if line.startswith("|")]
    assert [
        field.name for field in fields(ProviderUnderTest) if not any(f"`{field.name}`" in row for row in rows)
    ] == []


def test_the_features_of_each_coding_agent_are_in_the_guide() -> None:
    guide = (ROOT / "docs" / "guide" / "agents.md").read_text()
    rows = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in guide.splitlines() if "|" in line]
    header = rows.index(["kind", *FEATURES])
    coders = loader.CODING_KINDS
    kinds = [importlib.import_module(loader.KIND_MODULES[name]).make_kind(name, dict) for name in coders]
    expected = [[kind.name, *("yes" if feature in kind.features else "no" for feature in FEATURES)] for kind in kinds]
    assert rows[header + 2 : header + 2 + len(kinds)] == expected


def test_every_command_is_in_the_index_of_the_reference() -> None:
    index = (ROOT / "docs" / "reference" / "README.md").read_text()
    assert [name for name in COMMANDS if f"`mngr {name}`" not in index] == []


def test_every_kind_is_on_the_page_about_agents() -> None:
    page = (ROOT / "docs" / "concepts" / "agents.md").read_text()
    assert [name for name in loader.KIND_MODULES if f"| `{name}` |" not in page] == []


def test_every_file_of_an_agent_is_documented(mngr: MngrProgram) -> None:
    page = (ROOT / "docs/concepts/agent-files.md").read_text()
    mngr("create", "foo", "player", "--idle-timeout", "1h", "-S", "project.setup=true", "-m", "hello")
    mngr("label", "foo", "a=b")
    directory = mngr.get_agent_dir("foo")
    names = {path.name for path in directory.iterdir()}
    mngr("stop", "foo")
    mngr("create", "bar", "--", "false")
    mngr("wait", "bar", "--state", "FAILED")
    names |= {path.name for path in (*directory.iterdir(), *mngr.get_agent_dir("bar").iterdir())}
    assert names >= {
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
    assert [name for name in sorted(names) if f"`{name}`" not in page.replace("`outputs/`", "`outputs`")] == []


def test_a_wrong_example_fails(reader: Reader) -> None:
    reader.follow("console", "run", "$ echo one; echo two 5s\none\ntwo 7s\n$ mngr list --ids\n")
    for wrong in ("$ echo one\ntwo\n", "$ printf 'a\\nb\\n'\nb\na\n"):
        with pytest.raises(AssertionError, match="and not, or not in this order"):
            reader.follow("console", "run", wrong)
    with pytest.raises(AssertionError, match="exit 1"):
        reader.follow("sh", "run", "false\ntrue\n")
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        reader.follow("python", "run", "1 / 0")
    assert run_git(reader.shop, "status", "--porcelain") == ""
