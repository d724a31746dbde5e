"""Kind `opencode`: opencode in its terminal, with directories of its own and a plugin of ours inside."""

from __future__ import annotations

import json
import os

from mngr.base import shell
from mngr.base.errors import MngrError
from mngr.host import scripts
from mngr.kinds.coding_agent import ProgramKind, mark_of, own_rows, places
from mngr.kinds.delivery import Delivery
from mngr.kinds.opencode import user_setup as user
from mngr.kinds.program_files import carry, make_dirs, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from mngr.base.model import AgentRecord
    from mngr.host.protocol import Host

_OWN = "opencode"  # its directories, in the agent's directory
_CONFIG = f"{_OWN}/config/opencode"
_DATA = f"{_OWN}/data/opencode"
_PLUGIN = "opencode.js"
_BOX = "inbox"  # where the plugin takes messages from
_PLACES = {"CONFIG": "config", "DATA": "data", "STATE": "state", "CACHE": "cache"}
_ASK = dict.fromkeys(("edit", "bash", "webfetch", "websearch"), "ask")
# Everything, and as nobody else writes it: so it comes last, and no other rule counts.
_ALLOW = {"**": "allow"}
_FILES = {
    "memory": ("AGENTS.md",),
    "commands": ("command", "commands"),
    "agents": ("agent", "agents"),
    "skills": ("skill", "skills"),
    "plugins": ("plugin", "plugins"),
}
# With this it takes the packages that plugins are made with for installed; ours needs none, and getting them takes long.
_PACKAGES = {"dependencies": {"@opencode-ai/plugin": "*"}}
_IMPORT = '. "$1/env" && cd "$MNGR_WORK_DIR" && shift && exec "$@" </dev/null'


class OpencodeKind(ProgramKind):
    """opencode. Our plugin tells what it does, keeps the conversation and hands it messages through its own API."""

    parent = "opencode"
    summary = "opencode"
    program = "opencode"
    answers = {"allow": "allow", "deny": "deny"}
    passes = tuple(name for _, names in user.PROVIDERS.values() for name in names)
    conversation = ("transcript.jsonl",)
    writes = (_OWN, _BOX)
    renewal = ("refresh", "")

    def given(self) -> dict[str, str]:
        named = user.variables(self._carried())
        return {**{name: os.environ[name] for name in named if name in os.environ}, **super().given()}

    def addresses(self, variables: dict[str, str]) -> tuple[str, ...]:
        logins = {} if self.options.get("login") == "none" else user.logins()
        return places(user.urls(self._carried(), logins, variables))

    def variables(self, host: Host, record: AgentRecord) -> dict[str, str]:
        own = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
        if record.options.get("yolo"):
            own["OPENCODE_PERMISSION"] = json.dumps(_ALLOW)
        models = os.path.join(user.place("CACHE"), "models.json")
        if host.is_here and not record.sandbox and os.path.isfile(models):
            own["OPENCODE_MODELS_PATH"] = models
        return own

    def prepare(self, host: Host, record: AgentRecord) -> None:
        directory = host.home.agent(record.id)
        make_dirs(host, record, f"{_CONFIG}/node_modules", _DATA, _BOX)
        write(host, record, _PLUGIN, scripts.program_beside(__file__, "opencode.js").encode())
        config = self._carried()
        config.setdefault("permission", _ASK)
        config.update(autoupdate=False, share=config.get("share", "disabled"))
        config["plugin"] = [*config.get("plugin", []), _url(os.path.join(directory, _PLUGIN))]
        write(host, record, f"{_CONFIG}/opencode.json", json.dumps(config, indent=1).encode())
        if "plugins" not in self._wanted():
            write(host, record, f"{_CONFIG}/package.json", json.dumps(_PACKAGES).encode())
            lock = {"packages": {"": _PACKAGES}}
            write(host, record, f"{_CONFIG}/package-lock.json", json.dumps(lock).encode())
        for word in self._wanted():
            for name in _FILES.get(word, ()):
                carry(host, record, os.path.join(user.place("CONFIG"), name), os.path.join(_CONFIG, name))
        self.log_in(host, record)
        self._adopt(host, record)

    def find_outside(self, name: str) -> str:
        from mngr.kinds.opencode import adopt

        return adopt.find(user.place("DATA"), name)

    def _adopt(self, host: Host, record: AgentRecord) -> None:
        """Take up the conversation that the user named, once: from then on it is the agent's own."""
        name = record.options.get("resume")
        if not name or record.phase != "creating":
            return
        from mngr.kinds.opencode import adopt

        data = self._export(str(name))
        directory = host.home.agent(record.id)
        file = os.path.join(directory, _OWN, "adopted.json")
        host.write(file, data)
        argv = [*self._place_words(host, record), "OPENCODE_PURE=1", self.executable_on(host), "import", file]
        took = host.run(["sh", "-c", _IMPORT, "import", directory, *argv], timeout=60.0)
        host.run(["rm", "-f", file])
        if took.code:
            raise MngrError(
                f"opencode did not take the conversation {name}: {took.problem}", "leave out --resume"
            )
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in adopt.rows(json.loads(data)))
        write(host, record, "transcript.jsonl", "".join(lines).encode())
        write(host, record, f"{_OWN}/session", f"{name}\n{record.work_dir}\n".encode())

    def _export(self, name: str) -> bytes:
        import tempfile

        with tempfile.NamedTemporaryFile() as file:  # what is in a pipe when it ends is lost
            argv = ["sh", "-c", 'exec "$@" >"$0"', file.name, self.executable, "export", name]
            told = shell.run(argv, timeout=60.0)
            data = file.read()
        try:
            json.loads(data)
        except ValueError:
            raise MngrError(
                f"opencode did not give the conversation {name}: {told.problem}",
                f"try: opencode export {name}",
            ) from None
        return data

    def _place_words(self, host: Host, record: AgentRecord) -> list[str]:
        """Only the program itself is told so: what an agent's windows run finds its configuration where it always does."""
        directory = os.path.join(host.home.agent(record.id), _OWN)
        return ["env", *(f"XDG_{name}_HOME={os.path.join(directory, own)}" for name, own in _PLACES.items())]

    def _wanted(self) -> list[str]:
        return list(self.options.get("carry") or [])

    def _carried(self) -> dict[str, Any]:
        return user.config(self._wanted())

    def logins(self) -> dict[str, str]:
        return {os.path.join(user.place("DATA"), "auth.json"): f"{_DATA}/auth.json"}

    def command(self, host: Host, record: AgentRecord, *, resume: bool) -> list[str]:
        words = [*self._place_words(host, record), *self.words(host, record)]
        if any(word.partition("=")[0] in ("-c", "--continue", "-s", "--session") for word in record.command):
            return words
        last = host.run(["cat", os.path.join(host.home.agent(record.id), _OWN, "session")]).text
        session, _, about = last.strip().partition("\n")
        # A conversation works where it was begun; one about another directory is brought here by the plugin.
        return [*words, "--session", session] if session and about == record.work_dir else words

    def delivery(self, record: AgentRecord, text: str) -> Delivery:
        return Delivery(text=text, ready="status", proof="api", mark=mark_of(text), shut=self.shut, box=_BOX)

    def answer(self, key: str) -> Delivery:
        return Delivery(text=key, ready="status", proof="api", keys=True, box=_BOX)

    def parse(self, lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
        return own_rows(lines)


def make(name: str, options: Any) -> OpencodeKind:
    """The kind under a name of the user's."""
    return OpencodeKind(name, options)


def _url(path: str) -> str:
    from urllib.parse import quote

    return "file://" + quote(path)
