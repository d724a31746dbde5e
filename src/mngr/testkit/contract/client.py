"""The provider under test, and the client with which the checks create their agents."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from mngr.testkit.contract.mngr_program import MngrProgram, clean_up, new_env, new_repo

SLEEP_COMMAND = ("--", "sleep", "1000")


def _cut_not_implemented() -> None:
    raise NotImplementedError(
        "for LossContract, the fixture `place` must define cut_connections and restore_connections"
    )


@dataclass(frozen=True)
class ProviderUnderTest:
    """A host of the provider under test, and what mngr needs to reach it."""

    provider: str
    host: str | None = None  # None: every check starts with a new host, NAME@.PROVIDER
    env: Mapping[str, str] = field(default_factory=dict)  # variables for mngr; a setting is MNGR__PROVIDERS__NAME__KEY
    is_local: bool = False  # paths of this machine are paths of the host
    cut_connections: Callable[[], None] = _cut_not_implemented  # break every connection to the host and block new ones
    restore_connections: Callable[[], None] = _cut_not_implemented  # allow connections again


@dataclass
class Client(MngrProgram):
    """mngr on one machine, with agents on the provider under test."""

    place: ProviderUnderTest = field(default_factory=lambda: ProviderUnderTest("local", "local", is_local=True))
    host: str | None = None

    def build_address(self, name: str) -> str:
        """Return the address of a new agent."""
        return f"{name}@{self.host or ''}.{self.place.provider}"

    def build_host_source(self, path: str) -> str:
        """Return the `--from` argument for a directory of the host."""
        return path if self.place.is_local else f"@{self.host}.{self.place.provider}:{path}"

    def create(self, name: str, *words: str, **more: Any) -> dict[str, Any]:
        """Create an agent on the provider under test, and return the row that `create` prints."""
        (agent,) = self.run_json("create", self.build_address(name), *words, **more)["agents"]
        self.host = str(agent["host"])
        return dict(agent)

    def run_script(self, name: str, script: str, *args: str, data: bytes | None = None) -> str:
        """Run a script in the agent's work dir and return its output. Fail the test if the script fails."""
        result = self.run_bytes("exec", name, "--", "sh", "-ec", script, "sh", *args, data=data)
        if result.returncode:
            pytest.fail(f"exec {name}: {script}\nexit {result.returncode}\n{result.stderr.decode()}")
        return result.stdout.decode("utf-8", "surrogateescape")

    def commit(self, name: str, path: str, text: str = "more\n") -> str:
        """Commit a file in the agent's work dir, and return the commit."""
        script = (
            'printf %s "$2" >"$1"; git add -A; '
            'git -c user.name=Agent -c user.email=agent@example.invalid commit -q -m "change $1"; git rev-parse HEAD'
        )
        return self.run_script(name, script, path, text).strip()

    def get_only_row(self, *words: str, **more: Any) -> dict[str, Any]:
        """Return the only result of a command."""
        (row,) = self.run_json(*words, **more)["results"]
        return dict(row)


class ContractChecks:
    """The fixtures of all checks. A provider's test class defines `place`."""

    @pytest.fixture
    def place(self) -> ProviderUnderTest:
        """Override this. The code after its `yield` cleans up the host, when `tmp_path` is already deleted."""
        raise NotImplementedError("the test class of a provider must define the fixture `place`")

    @pytest.fixture
    def client(self, tmp_path: Path, place: ProviderUnderTest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
        """mngr with its own home and repository."""
        yield new_client(tmp_path, place, monkeypatch)
        clean_up(tmp_path)

    @pytest.fixture
    def other(self, tmp_path: Path, client: Client, monkeypatch: pytest.MonkeyPatch) -> Client:
        """A second user on another machine: another home and repository, but the same host."""
        root = tmp_path / "other"
        root.mkdir()
        return replace(new_client(root, client.place, monkeypatch), host=client.host)


def new_client(root: Path, place: ProviderUnderTest, monkeypatch: pytest.MonkeyPatch) -> Client:
    """Return a client whose files are below a directory."""
    env = {**new_env(root), **place.env}
    repo = new_repo(root, env, monkeypatch)
    return Client(repo, Path(env["MNGR_HOME"]), env, place=place, host=place.host)


def run_concurrently(*calls: tuple[MngrProgram, tuple[str, ...]]) -> list[subprocess.CompletedProcess[bytes]]:
    """Run commands at the same time, and return their results in order."""
    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(lambda call: call[0].run_bytes(*call[1]), calls))
