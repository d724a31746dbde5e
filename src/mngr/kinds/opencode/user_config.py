"""Reads the user's own opencode configuration and logins, and the model URLs that follow from them."""

from __future__ import annotations

import json
import os
import re

from mngr.base.errors import MngrError, describe_file_error
from mngr.base.untrusted_json import as_list, as_object, get_object, get_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.base.untrusted_json import JsonObject

# The built-in providers: the URL of each, and the variables that may hold its API key.
PROVIDERS: dict[str, tuple[str, tuple[str, ...]]] = {
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
# Every agent gets the settings that select a model. The user chooses which other settings an agent gets.
_MODEL_KEYS = ("provider", "model", "small_model", "enabled_providers", "disabled_providers")
_CARRIED_KEYS = {
    "mcp": ("mcp",),
    "plugins": ("plugin",),
    "agents": ("agent", "mode"),
    "commands": ("command",),
}
_DEFAULT_DIRS = {"CONFIG": "~/.config", "DATA": "~/.local/share", "CACHE": "~/.cache"}
_JSON_EXTRAS = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.DOTALL)
_FROM_ENV = re.compile(r"\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_FROM_FILE = re.compile(r"\{file:([^}]+)\}")


def get_user_dir(kind: str) -> str:
    """Return the user's opencode directory of a kind: CONFIG, DATA or CACHE."""
    top = os.environ.get(f"XDG_{kind}_HOME") or os.path.expanduser(_DEFAULT_DIRS[kind])
    return os.path.join(top, "opencode")


def read_logins() -> JsonObject:
    """Return the user's logins by provider."""
    return _read_lenient_json(os.path.join(get_user_dir("DATA"), "auth.json"))


def read_config(carried: list[str]) -> JsonObject:
    """Return the user's model settings and the other settings that `carried` names; may raise MngrError."""
    config: JsonObject = {}
    for name in ("config.json", "opencode.json", "opencode.jsonc"):
        config.update(_read_lenient_json(os.path.join(get_user_dir("CONFIG"), name)))
    chosen = {key for topic in carried for key in _CARRIED_KEYS.get(topic, ())}
    included = {*_MODEL_KEYS, *chosen}
    if "settings" in carried:
        optional = {key for keys in _CARRIED_KEYS.values() for key in keys}
        included = set(config) - (optional - chosen)
    included_config = {key: value for key, value in config.items() if key in included}
    filled = _FROM_FILE.sub(_read_included_file, json.dumps(included_config))
    return as_object(json.loads(filled))


def list_variables(config: JsonObject) -> list[str]:
    """Return the names of the variables to which a configuration refers."""
    return _FROM_ENV.findall(json.dumps(config))


def list_model_urls(config: JsonObject, logins: JsonObject, variables: dict[str, str]) -> list[str]:
    """Return the URLs of the models that this configuration, these logins and these variables can use."""
    providers = get_object(config, "provider")
    options = {name: get_object(row, "options") for name, row in providers.items() if isinstance(row, dict)}
    configured_urls = {name: get_text(row, "baseURL") for name, row in options.items()}
    urls = {name: url for name, url in configured_urls.items() if url}
    for name, (url, keys) in PROVIDERS.items():
        if name in options or name in logins or any(variables.get(key) for key in keys):
            urls.setdefault(name, url)
    enabled = as_list(config.get("enabled_providers")) or list(urls)
    enabled_urls = [url for name, url in urls.items() if name in enabled]
    return [_FROM_ENV.sub(lambda match: variables.get(match[1], ""), url) for url in enabled_urls]


def _read_included_file(match: re.Match[str]) -> str:
    """Return the content of the file in a `{file:…}` reference; the file may not exist on the agent's host."""
    path = os.path.join(get_user_dir("CONFIG"), os.path.expanduser(match[1]))
    try:
        with open(path, encoding="utf-8") as file:
            return json.dumps(file.read().strip())[1:-1]
    except (OSError, ValueError):
        return match[0]


def _read_lenient_json(path: str) -> JsonObject:
    """Return a JSON file that may have comments and trailing commas, or {} when it does not exist."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise MngrError(
            f"cannot read {path}: {describe_file_error(error)}",
            "correct the file: opencode itself cannot read it either",
        ) from None
    for _ in range(2):  # a comment may separate a trailing comma from the bracket
        text = _JSON_EXTRAS.sub(lambda match: match[1] or "", text)
    try:
        return as_object(json.loads(text or "{}"))
    except (ValueError, RecursionError) as error:
        raise MngrError(
            f"{path} is not JSON: {error}", "correct the file: opencode itself cannot read it either"
        ) from None
