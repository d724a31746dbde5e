"""`mngr ssh-config`: entries that ssh understands, for every agent and host, without asking any of them."""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conftest import BIN_DIR, MngrProgram
from tests.support.hosts.sshd import Farm

RUN = ("--", "sleep", "1000")


def understood(mngr: MngrProgram, config: Path, name: str) -> dict[str, str]:
    """What ssh itself makes of an entry."""
    argv = ["ssh", "-F", str(config), "-G", name]
    said = subprocess.run(argv, env=mngr.env, capture_output=True, text=True, check=True).stdout
    return dict(line.split(" ", 1) for line in said.splitlines() if " " in line)


def test_every_agent_and_host_has_an_entry_and_nobody_is_asked(mngr: MngrProgram, farm: Farm) -> None:
    mngr.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(farm.config)
    mngr("create", "here", *RUN)
    mngr("create", "there@h1", *RUN)
    farm.cut("h1")
    config = mngr.repo / "config"
    config.write_text(mngr("ssh-config").out)
    known = mngr.home / "hosts"
    for name, address, host in (
        ("here", "here", "local.local"),
        ("there", "there", "h1.ssh"),
        ("h1.ssh", "@h1.ssh", "h1.ssh"),
    ):
        found = understood(mngr, config, f"{name}.mngr")
        assert found["proxycommand"] == f"{BIN_DIR}/mngr --home {mngr.home} pipe {address}"
        assert found["hostkeyalias"] == f"{host}.mngr"
        short, _, provider = host.partition(".")
        assert found["userknownhostsfile"] == str(known / provider / f"{short}.known_hosts")
        assert found["user"] == "root"
        assert (found["identitiesonly"], found["stricthostkeychecking"]) == ("yes", "true")
        assert (found["forwardagent"], found["preferredauthentications"]) == ("no", "publickey")
    assert "proxycommand" not in understood(mngr, config, "elsewhere.example")
    rows = mngr.run_json("ssh-config")["entries"]
    assert [(row["alias"], row["agent"], row["host"], row["provider"]) for row in rows] == [
        ("here.mngr", "here", "local", "local"),
        ("there.mngr", "there", "h1", "ssh"),
        ("h1.ssh.mngr", None, "h1", "ssh"),
    ]
    assert mngr("ssh-config", "--format", "{alias} {user}").out.splitlines()[0] == "here.mngr root"


def test_nothing_is_made_up_where_there_is_no_agent(mngr: MngrProgram) -> None:
    assert mngr.run_json("ssh-config")["entries"] == []
    assert not mngr.home.exists()
    assert mngr("ssh-config").out.startswith("Host *.mngr\n")


def test_the_file_is_written_and_the_users_own_left_alone(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    own = Path(mngr.env["HOME"]) / ".ssh/config"
    line = f"Include {mngr.home}/ssh/config"
    ran = mngr("ssh-config", "--write")
    assert ran.out == f"{mngr.home}/ssh/config\n"
    assert ran.err == f"add this line at the top of ~/.ssh/config, once:\n{line}\n"
    assert not own.parent.exists()
    assert mngr.run_json("ssh-config", "--write") == {
        "v": 1,
        "path": f"{mngr.home}/ssh/config",
        "include": line,
    }
    own.parent.mkdir()
    own.write_text(f"# mine\n{line}\n")
    assert mngr("ssh-config", "--write").err == ""
    assert own.read_text() == f"# mine\n{line}\n"
    config = mngr.home / "ssh/config"
    assert config.stat().st_mode & 0o777 == 0o600
    assert "pipe foo" in understood(mngr, own, "foo.mngr")["proxycommand"]


def test_the_file_follows_the_agents(mngr: MngrProgram) -> None:
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
    (mngr.home / "ssh").write_text("in the way")  # no reason for anything else to fail
    mngr("create", "foo", *RUN)


def test_our_key_is_made_once_and_is_ours_alone(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    with ThreadPoolExecutor(6) as pool:
        said = set(pool.map(lambda _: mngr("ssh-config").out, range(6)))
    assert len(said) == 1
    key = mngr.home / "ssh/id_ed25519"
    assert key.stat().st_mode & 0o777 == 0o600 and key.parent.stat().st_mode & 0o777 == 0o700
    first = key.read_text()
    derived = subprocess.run(["ssh-keygen", "-y", "-f", key], capture_output=True, text=True, check=True)
    assert derived.stdout.strip() == key.with_suffix(".pub").read_text().strip()
    mngr("ssh-config", "--write")
    assert key.read_text() == first
    assert sorted(path.name for path in key.parent.iterdir()) == [
        "config",
        "id_ed25519",
        "id_ed25519.lock",
        "id_ed25519.pub",
    ]


@pytest.mark.parametrize("user", ["ann\n  ProxyCommand touch owned", "a b", "-oX", "*", ""])
def test_what_a_host_calls_its_user_cannot_add_to_the_file(mngr: MngrProgram, user: str) -> None:
    mngr("create", "foo", *RUN)
    place = mngr.home / "hosts/ssh"
    place.mkdir(parents=True)
    (place / "box.json").write_text(json.dumps({"v": 1, "home": "/h", "uid": "0", "login": user}))
    entry = mngr("ssh-config").out.split("Host box.ssh.mngr\n")[1].split("Host *")[0]
    assert "User" not in entry.replace("UserKnownHostsFile", "") and "owned" not in entry
    (place / "box.json").write_text(json.dumps({"v": 1, "home": "/h", "uid": "0", "login": "ann.b-c_d"}))
    assert "\n    User ann.b-c_d\n" in mngr("ssh-config").out


def test_a_home_with_an_odd_path(mngr: MngrProgram, tmp_path: Path) -> None:
    """Quotes, spaces and what ssh would expand: in the entries, in sshd's options and in the shell between them."""
    home = tmp_path / "a b'c\"%h\\d"
    mngr.env["MNGR_HOME"] = str(home)
    mngr("create", "foo", *RUN)
    mngr("ssh-config", "--write")
    config = home / "ssh/config"
    argv = ["ssh", "-F", str(config), "-o", "ControlPath=none", "foo.mngr", "pwd"]
    done = subprocess.run(argv, env=mngr.env, capture_output=True, text=True, timeout=30, check=False)
    assert (done.stdout, done.stderr) == (f"{home}/work/foo\n", "")


def test_sharing(mngr: MngrProgram, tmp_path: Path) -> None:
    """One connection for several commands, where the path of its socket is not too long."""
    config = tmp_path / "config"
    for home, shared in ((tmp_path / "h", True), (tmp_path / ("x" * 80), False)):
        mngr.env["MNGR_HOME"] = str(home)
        mngr("create", "foo", "--transfer", "copy", *RUN)
        config.write_text(mngr("ssh-config").out)
        found = understood(mngr, config, "foo.mngr")
        assert ("controlpath" in found) is shared
        if shared:
            assert found["controlpath"].startswith(f"{home}/ssh/{mngr.get_agent('foo')['id'][2:]}")
