"""Tests `mngr ssh-config`: ssh understands the entries of every agent and host, and mngr contacts no host for them."""

from __future__ import annotations

import json
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conftest import BIN_DIR, MngrProgram
from tests.support.hosts.sshd import Farm

RUN = ("--", "sleep", "1000")


def parse_entry(mngr: MngrProgram, config: Path, name: str) -> dict[str, str]:
    """Return the options of an entry as ssh itself parses them."""
    argv = ["ssh", "-F", str(config), "-G", name]
    output = subprocess.run(argv, env=mngr.env, capture_output=True, text=True, check=True).stdout
    return dict(line.split(" ", 1) for line in output.splitlines() if " " in line)


def test_every_agent_and_host_has_an_entry_without_contacting_hosts(mngr: MngrProgram, farm: Farm) -> None:
    mngr.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(farm.config)
    mngr("create", "here", *RUN)
    mngr("create", "there@h1", *RUN)
    farm.cut("h1")
    config = mngr.repo / "config"
    config.write_text(mngr("ssh-config").out)
    hosts_dir = mngr.home / "hosts"
    for name, address, host in (
        ("here", "here", "local.local"),
        ("there", "there", "h1.ssh"),
        ("h1.ssh", "@h1.ssh", "h1.ssh"),
    ):
        options = parse_entry(mngr, config, f"{name}.mngr")
        assert options["proxycommand"] == f"{BIN_DIR}/mngr --home {mngr.home} pipe {address}"
        assert options["hostkeyalias"] == f"{host}.mngr"
        host_name, _, provider = host.partition(".")
        assert options["userknownhostsfile"] == str(hosts_dir / provider / f"{host_name}.known_hosts")
        assert options["user"] == "root"
        assert (options["identitiesonly"], options["stricthostkeychecking"]) == ("yes", "true")
        assert (options["forwardagent"], options["preferredauthentications"]) == ("no", "publickey")
    assert "proxycommand" not in parse_entry(mngr, config, "elsewhere.example")
    rows = mngr.run_json("ssh-config")["entries"]
    assert [(row["alias"], row["agent"], row["host"], row["provider"]) for row in rows] == [
        ("here.mngr", "here", "local", "local"),
        ("there.mngr", "there", "h1", "ssh"),
        ("h1.ssh.mngr", None, "h1", "ssh"),
    ]
    assert mngr("ssh-config", "--format", "{alias} {user}").out.splitlines()[0] == "here.mngr root"


def test_without_agents_there_are_no_entries(mngr: MngrProgram) -> None:
    assert mngr.run_json("ssh-config")["entries"] == []
    assert not mngr.home.exists()
    assert mngr("ssh-config").out.startswith("Host *.mngr\n")


def test_write_creates_a_file_and_keeps_the_users_config(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    user_config = Path(mngr.env["HOME"]) / ".ssh/config"
    line = f"Include {mngr.home}/ssh/config"
    result = mngr("ssh-config", "--write")
    assert result.out == f"{mngr.home}/ssh/config\n"
    assert result.err == f"add this line once, at the top of ~/.ssh/config:\n{line}\n"
    assert not user_config.parent.exists()
    assert mngr.run_json("ssh-config", "--write") == {
        "v": 1,
        "path": f"{mngr.home}/ssh/config",
        "include": line,
    }
    user_config.parent.mkdir()
    user_config.write_text(f"# mine\n{line}\n")
    assert mngr("ssh-config", "--write").err == ""
    assert user_config.read_text() == f"# mine\n{line}\n"
    config = mngr.home / "ssh/config"
    assert config.stat().st_mode & 0o777 == 0o600
    assert "pipe foo" in parse_entry(mngr, user_config, "foo.mngr")["proxycommand"]


def test_the_written_file_follows_the_agents(mngr: MngrProgram) -> None:
    config = mngr.home / "ssh/config"

    def names() -> list[str]:
        return [line[5:] for line in config.read_text().splitlines() if line.startswith("Host ")]

    mngr("create", "foo", *RUN)
    assert not config.exists()
    mngr("ssh-config", "--write")
    mngr("create", "bar", "--connect-command", "true", *RUN)
    assert names() == ["bar.mngr", "foo.mngr", "*.mngr"]
    mngr("rename", "bar", "baz")
    mngr("clone", "foo", "too")
    assert names() == ["baz.mngr", "foo.mngr", "too.mngr", "*.mngr"]
    mngr("destroy", "--force", "foo", "too")
    assert names() == ["baz.mngr", "*.mngr"]
    before = config.stat().st_ino
    mngr("list")
    assert config.stat().st_ino == before
    (mngr.home / "ssh").rename(mngr.home / "put-away")
    (mngr.home / "ssh").write_text("in the way")  # This must not make any other command fail.
    mngr("create", "foo", *RUN)


def test_the_client_key_is_created_once_and_private(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    with ThreadPoolExecutor(6) as pool:
        outputs = set(pool.map(lambda _: mngr("ssh-config").out, range(6)))
    assert len(outputs) == 1
    key = mngr.home / "ssh/id_ed25519"
    assert key.stat().st_mode & 0o777 == 0o600 and key.parent.stat().st_mode & 0o777 == 0o700
    key_text = key.read_text()
    derived = subprocess.run(["ssh-keygen", "-y", "-f", key], capture_output=True, text=True, check=True)
    assert derived.stdout.strip() == key.with_suffix(".pub").read_text().strip()
    mngr("ssh-config", "--write")
    assert key.read_text() == key_text
    assert sorted(path.name for path in key.parent.iterdir()) == [
        "config",
        "id_ed25519",
        "id_ed25519.lock",
        "id_ed25519.pub",
    ]


@pytest.mark.parametrize("user", ["ann\n  ProxyCommand touch owned", "a b", "-oX", "*", ""])
def test_a_hosts_user_name_cannot_inject_options(mngr: MngrProgram, user: str) -> None:
    mngr("create", "foo", *RUN)
    hosts_dir = mngr.home / "hosts/ssh"
    hosts_dir.mkdir(parents=True)
    (hosts_dir / "box.json").write_text(json.dumps({"v": 1, "home": "/h", "uid": "0", "login": user}))
    entry = mngr("ssh-config").out.split("Host box.ssh.mngr\n")[1].split("Host *")[0]
    assert "User" not in entry.replace("UserKnownHostsFile", "") and "owned" not in entry
    (hosts_dir / "box.json").write_text(json.dumps({"v": 1, "home": "/h", "uid": "0", "login": "ann.b-c_d"}))
    assert "\n    User ann.b-c_d\n" in mngr("ssh-config").out


def test_a_home_with_special_characters_in_its_path(mngr: MngrProgram, tmp_path: Path) -> None:
    """Quotes, spaces and % work in the entries, in sshd's options and in the shell between them."""
    home = tmp_path / "a b'c\"%h\\d"
    mngr.env["MNGR_HOME"] = str(home)
    mngr("create", "foo", *RUN)
    mngr("ssh-config", "--write")
    config = home / "ssh/config"
    argv = ["ssh", "-F", str(config), "-o", "ControlPath=none", "foo.mngr", "pwd"]
    result = subprocess.run(argv, env=mngr.env, capture_output=True, text=True, timeout=30, check=False)
    assert (result.stdout, result.stderr) == (f"{home}/work/foo\n", "")


def test_connections_are_shared_unless_the_socket_path_is_too_long(mngr: MngrProgram, tmp_path: Path) -> None:
    """Several commands share one connection when the path of its socket is short enough."""
    config = tmp_path / "config"
    with tempfile.TemporaryDirectory() as short:
        for home, shared in ((Path(short) / "h", True), (tmp_path / ("x" * 80), False)):
            mngr.env["MNGR_HOME"] = str(home)
            mngr("create", "foo", "--transfer", "copy", *RUN)
            config.write_text(mngr("ssh-config").out)
            options = parse_entry(mngr, config, "foo.mngr")
            assert ("controlpath" in options) is shared
            if shared:
                assert options["controlpath"].startswith(f"{home}/ssh/{mngr.get_agent('foo')['id'][2:]}")
            mngr("destroy", "--force", "foo")
