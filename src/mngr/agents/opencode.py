"""Kind `opencode`: opencode in its terminal, with directories of its own and a plugin of ours inside."""

from __future__ import annotations

import json
import os
import re

from mngr import onhost, shell
from mngr.agents.delivery import Delivery
from mngr.agents.program import ProgramKind, carry, mark_of, own_rows, places, write
from mngr.errors import MngrError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from mngr.host import Host
    from mngr.model import AgentRecord

_OWN = "opencode"  # its directories, in the agent's directory
_CONFIG = f"{_OWN}/config/opencode"
_DATA = f"{_OWN}/data/opencode"
_PLUGIN = "opencode.js"
_BOX = "inbox"  # where the plugin takes messages from
_PLACES = {"CONFIG": "config", "DATA": "data", "STATE": "state", "CACHE": "cache"}
_ASK = dict.fromkeys(("edit", "bash", "webfetch", "websearch"), "ask")
_ALLOW = {
    "**": "allow"
}  # everything, and as nobody else writes it: it comes last, so that no other rule counts
# How it finds a model is the same for every agent of a user; the rest of his configuration goes along by choice.
_MODEL = ("provider", "model", "small_model", "enabled_providers", "disabled_providers")
_CHOSEN = {"mcp": ("mcp",), "plugins": ("plugin",), "agents": ("agent", "mode"), "commands": ("command",)}
_FILES = {
    "memory": ("AGENTS.md",),
    "commands": ("command", "commands"),
    "agents": ("agent", "agents"),
    "skills": ("skill", "skills"),
    "plugins": ("plugin", "plugins"),
}
# With this it takes the packages that plugins are made with for installed; ours needs none, and getting them takes long.
_PACKAGES = {"dependencies": {"@opencode-ai/plugin": "*"}}
# Of the providers that it knows by itself: where they are, and the variables by which it finds a login for them.
_PROVIDERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "anthropic": ("https://api.anthropic.com", ("ANTHROPIC_API_KEY",)),
    "openai": ("https://api.openai.com", ("OPENAI_API_KEY",)),
    "openrouter": ("https://openrouter.ai", ("OPENROUTER_API_KEY",)),
    "opencode": ("https://opencode.ai", ("OPENCODE_API_KEY",)),
    "google": (
        "https://generativelanguage.googleapis.com",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"),
    ),
    "groq": ("https://api.groq.com", ("GROQ_API_KEY",)),
    "mistral": ("https://api.mistral.ai", ("MISTRAL_API_KEY",)),
    "deepseek": ("https://api.deepseek.com", ("DEEPSEEK_API_KEY",)),
    "xai": ("https://api.x.ai", ("XAI_API_KEY",)),
    "github-copilot": ("https://api.githubcopilot.com", ()),
}
_MAKE = 'cd "$1" && shift && mkdir -p "$@"'
_IMPORT = '. "$1/env" && cd "$MNGR_WORK_DIR" && shift && exec "$@" </dev/null'
_NOT_JSON = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.DOTALL)
_FROM_ENV = re.compile(r"\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_FROM_FILE = re.compile(r"\{file:([^}]+)\}")


class OpencodeKind(ProgramKind):
    """opencode. Our plugin tells what it does, keeps the conversation and hands it messages through its own API."""

    parent = "opencode"
    summary = "opencode"
    program = "opencode"
    answers = {"allow": "allow", "deny": "deny"}
    passes = tuple(name for _, names in _PROVIDERS.values() for name in names)
    conversation = ("transcript.jsonl",)
    writes = (_OWN, _BOX)

    def given(self) -> dict[str, str]:
        named = _FROM_ENV.findall(json.dumps(self._carried()))  # variables that his configuration speaks of
        return {**{name: os.environ[name] for name in named if name in os.environ}, **super().given()}

    def addresses(self, variables: dict[str, str]) -> tuple[str, ...]:
        config = self._carried()
        own = config.get("provider")
        options = {
            name: row.get("options") or {}
            for name, row in (own if isinstance(own, dict) else {}).items()
            if isinstance(row, dict)
        }
        logins = {} if self.options.get("login") == "none" else _logins()
        urls = {name: str(row["baseURL"]) for name, row in options.items() if row.get("baseURL")}
        for name, (url, keys) in _PROVIDERS.items():
            if name in options or name in logins or any(variables.get(key) for key in keys):
                urls.setdefault(name, url)
        wanted = config.get("enabled_providers") or urls
        filled = (
            _FROM_ENV.sub(lambda match: variables.get(match[1], ""), url)
            for name, url in urls.items()
            if name in wanted
        )
        return places(filled)

    def variables(self, host: Host, record: AgentRecord) -> dict[str, str]:
        own = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
        if record.options.get("yolo"):
            own["OPENCODE_PERMISSION"] = json.dumps(_ALLOW)
        models = os.path.join(_place("CACHE"), "models.json")
        if host.is_here and not record.sandbox and os.path.isfile(models):
            own["OPENCODE_MODELS_PATH"] = models
        return own

    def prepare(self, host: Host, record: AgentRecord) -> None:
        directory = host.home.agent(record.id)
        made = host.run(["sh", "-c", _MAKE, "make", directory, f"{_CONFIG}/node_modules", _DATA, _BOX])
        if made.code:
            raise MngrError(f"cannot make the directory of {record.name}: {made.problem}", "see: mngr doctor")
        write(host, record, _PLUGIN, onhost.program("opencode.js").encode())
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
                carry(host, record, os.path.join(_place("CONFIG"), name), os.path.join(_CONFIG, name))
        self._log_in(host, record)
        self._adopt(host, record)

    def find_outside(self, name: str) -> str:
        from mngr.agents import opencode_adopt

        return opencode_adopt.find(_place("DATA"), name)

    def _adopt(self, host: Host, record: AgentRecord) -> None:
        """Take up the conversation that the user named, once: from then on it is the agent's own."""
        name = record.options.get("resume")
        if not name or record.phase != "creating":
            return
        from mngr.agents import opencode_adopt

        data = self._export(str(name))
        directory = host.home.agent(record.id)
        file = os.path.join(directory, _OWN, "adopted.json")
        host.write(file, data)
        argv = [*self._place_words(host, record), "OPENCODE_PURE=1", self.executable, "import", file]
        took = host.run(["sh", "-c", _IMPORT, "import", directory, *argv], timeout=60.0)
        host.run(["rm", "-f", file])
        if took.code:
            raise MngrError(
                f"opencode did not take the conversation {name}: {took.problem}", "leave out --resume"
            )
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in opencode_adopt.rows(json.loads(data)))
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
        places = [f"XDG_{name}_HOME={os.path.join(directory, place)}" for name, place in _PLACES.items()]
        return ["env", *places]

    def _wanted(self) -> list[str]:
        return list(self.options.get("carry") or [])

    def _carried(self) -> dict[str, Any]:
        """Of the user's configuration, what an agent of his goes by."""
        found = _of_user()
        wanted = self._wanted()
        chosen = {key for word in wanted for key in _CHOSEN.get(word, ())}
        others = {key for keys in _CHOSEN.values() for key in keys} - chosen
        if "settings" in wanted:
            return {key: value for key, value in found.items() if key not in others}
        return {key: value for key, value in found.items() if key in _MODEL or key in chosen}

    def _log_in(self, host: Host, record: AgentRecord) -> None:
        """The user's own logins: one file for all agents that can see it, so that renewing one logs nobody out."""
        logins = _logins()
        if self.options.get("login") == "none" or not logins:
            return
        if host.is_here and not record.sandbox:
            path = os.path.join(_place("DATA"), "auth.json")
            host.run(["ln", "-sf", path, os.path.join(host.home.agent(record.id), _DATA, "auth.json")])
            return
        for login in logins.values():
            if isinstance(login, dict) and "refresh" in login:
                login["refresh"] = ""  # whoever uses it ends the login of all others
        write(host, record, f"{_DATA}/auth.json", json.dumps(logins).encode())

    def command(self, host: Host, record: AgentRecord, *, resume: bool) -> list[str]:
        words = [*self._place_words(host, record), *self.words(record)]
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


def _place(kind: str) -> str:
    """Where the user's own opencode has its files."""
    usual = {"CONFIG": "~/.config", "DATA": "~/.local/share", "CACHE": "~/.cache"}[kind]
    return os.path.join(os.environ.get(f"XDG_{kind}_HOME") or os.path.expanduser(usual), "opencode")


def _logins() -> dict[str, Any]:
    """The user's own logins, by provider."""
    return _read(os.path.join(_place("DATA"), "auth.json"))


def _of_user() -> dict[str, Any]:
    """The user's own configuration, with the contents of the files it speaks of."""
    place = _place("CONFIG")
    found: dict[str, Any] = {}
    for name in ("config.json", "opencode.json", "opencode.jsonc"):
        found.update(_read(os.path.join(place, name)))

    def contents(match: re.Match[str]) -> str:
        path = os.path.join(place, os.path.expanduser(match[1]))
        try:
            with open(path, encoding="utf-8") as file:
                return json.dumps(file.read().strip())[1:-1]
        except (OSError, ValueError):
            return match[0]

    filled: dict[str, Any] = json.loads(_FROM_FILE.sub(contents, json.dumps(found)))
    return filled


def _read(path: str) -> dict[str, Any]:
    """A JSON file that may have comments and commas too many; nothing when it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for _ in range(2):  # a comment may stand between a comma and the end
            text = _NOT_JSON.sub(lambda match: match[1] or "", text)
        found = json.loads(text)
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _url(path: str) -> str:
    from urllib.parse import quote

    return "file://" + quote(path)
