"""Reads and checks the options of a new host."""

from __future__ import annotations

import os

from mngr.base import names_and_addresses, shell
from mngr.base.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.base.paths import Home
    from mngr.host.host_store import HostFacts


def get_author() -> list[str]:
    """Return the user's name and email from git's settings. Agents on other hosts commit under this name."""
    directory = os.getcwd()
    if directory not in _author_cache:  # One call of git serves many hosts.
        output = shell.run(["git", "config", "--null", "--get-regexp", r"^user\.(name|email)$"]).text
        rows = dict(row.partition("\n")[::2] for row in output.split("\0"))
        _author_cache[directory] = [rows.get(f"user.{key}", "") for key in ("name", "email")]
    return _author_cache[directory]


_author_cache: dict[str, list[str]] = {}


def get_original_options(home: Home, old_facts: HostFacts) -> dict[str, object]:
    """Return the options of a host that is gone, for a new host of its name. A deleted snapshot is omitted."""
    options = dict(old_facts.options)
    if not os.path.isdir(os.path.join(home.snapshots, str(options.get("snapshot")))):
        options.pop("snapshot", None)
    return options


def reject_options(host: str, options: dict[str, object]) -> None:
    """Raise UsageError if there are options, because the host already exists."""
    if options:
        key = next(iter(options))
        raise UsageError(
            f"the host {host} already exists, so you cannot choose {key}", f"leave out -b {key}, or create a new host"
        )


def parse_network(options: dict[str, object]) -> str:
    """Return the network option as `on`, `off` or `allow=…`. Raise UsageError for any other word."""
    value = options.get("network", True)
    text = {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
    if not text.startswith("allow="):
        names_and_addresses.parse_network(text)
    return text


def make_option_error(provider: str, key: str, value: object, expected: str, example: str) -> UsageError:
    """Return the error for an option of a new host, which comes from the settings or from -b."""
    return UsageError(
        f"[providers.{provider}] {key} must be {expected}, not {value!r}",
        f"change the setting: mngr config set providers.{provider}.{key} {example}; for one host: -b {key}={example}",
    )


def parse_number(
    provider: str, key: str, value: object, expected: str = "a number that is 0 or more", example: str = "1"
) -> float:
    """Return the number in an option. Raise UsageError unless it is 0 or more."""
    try:
        number = float(str(value))
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e15:
        raise make_option_error(provider, key, value, expected, example)
    return number
