"""What an agent is given, and nothing else: quoting through a real sh, files, secrets."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mngr.agents.launch import environment
from mngr.base.errors import MngrError, UsageError
from tests.conftest import MngrProgram, wait_for

ODD = "$HOME `id` $(id) 'single' \"double\" \\ ; & | > < ! * ? # ~ {a,b} é\nsecond line\n\ttab \r end "
RAW = os.fsdecode(b"\x01\x7f\x81\x88\xff\xfe not utf-8 \x82")

_VALUE = st.text(st.characters(codec="utf-8", exclude_characters="\0")) | st.binary(max_size=30).map(
    lambda b: os.fsdecode(b.replace(b"\0", b""))
)


@given(
    st.dictionaries(st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,8}", fullmatch=True).map("X_{}".format), _VALUE, max_size=5)
)
def test_values_pass_a_real_shell_unchanged(
    tmp_path_factory: pytest.TempPathFactory, variables: dict[str, str]
) -> None:
    file = tmp_path_factory.mktemp("env") / "env"
    file.write_bytes(environment.format_exports(variables))
    argv = ["env", "-i", "sh", "-c", '. "$0"; exec env -0', str(file)]
    found = subprocess.run(argv, capture_output=True, check=True).stdout.split(b"\0")
    seen = dict(row.split(b"=", 1) for row in found if row.startswith(b"X_"))
    assert seen == {os.fsencode(k): os.fsencode(v) for k, v in variables.items()}


def read(tmp_path: Path, text: str) -> dict[str, str]:
    (tmp_path / "env").write_bytes(os.fsencode(text))
    return environment.collect_user_variables([str(tmp_path / "env")], [], [])


def test_a_file_of_variables(tmp_path: Path) -> None:
    text = f"""
# a comment
PLAIN=a b $c `d` "e" # not a comment
export EXPORTED=x
EMPTY=
SPACED = y\r
QUOTED='it is $quoted; "here" '
DOUBLE="a 'b' `c` \\d"   # a comment
HASH="a#b"
LINES="one
# two
three"
INNER='{{"key": "it's"}}'
RAW={RAW[2:]}
"""
    assert read(tmp_path, text) == {
        "PLAIN": 'a b $c `d` "e" # not a comment',
        "EXPORTED": "x",
        "EMPTY": "",
        "SPACED": "y",
        "QUOTED": 'it is $quoted; "here" ',
        "DOUBLE": "a 'b' `c` \\d",
        "HASH": "a#b",
        "LINES": "one\n# two\nthree",
        "INNER": '{"key": "it\'s"}',
        "RAW": RAW[2:],
    }


@pytest.mark.parametrize("text", ["novalue", "1A=x", "A B=x", "=x", "A='open", "A=1\nB"])
def test_a_file_that_cannot_be_read_names_the_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(MngrError, match=r"env:\d"):
        read(tmp_path, text)


def test_later_sources_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("one", "A=1\nB=1\nC=1\nD=1"), ("two", "B=2\nC=2\nD=2")):
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("C", "3")
    monkeypatch.setenv("D", "3")
    files = [str(tmp_path / name) for name in ("one", "two")]
    assert environment.collect_user_variables(files, ["C", "D"], ["D=4=x"]) == {
        "A": "1",
        "B": "2",
        "C": "3",
        "D": "4=x",
    }


def test_what_cannot_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    for files, passed, given_, error in (
        ([], ["NOT_SET"], [], MngrError),
        ([str(tmp_path / "nowhere")], [], [], MngrError),
        ([], [], ["NOVALUE"], UsageError),
        ([], [], ["1A=x"], UsageError),
        ([], [], ["MNGR_AGENT_ID=x"], UsageError),
        ([], [], ["_mngr_dir=x"], UsageError),
        ([], ["A-B"], [], UsageError),
    ):
        with pytest.raises(error):
            environment.collect_user_variables(files, passed, given_)


# ---- through the whole program


def environ(pid: int) -> dict[str, str]:
    raw = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return dict(os.fsdecode(row).split("=", 1) for row in raw if b"=" in row)


def everything_running() -> dict[str, bytes]:
    """The command line of every process, and the environment of every tmux server."""
    found: dict[str, bytes] = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            line = (place / "cmdline").read_bytes()
            found[f"{place}/cmdline"] = line
            if line.startswith(b"tmux"):
                found[f"{place}/environ"] = (place / "environ").read_bytes()
        except OSError:
            continue
    return found


def test_values_arrive_unchanged_and_are_never_seen(mngr: MngrProgram, tmp_path: Path) -> None:
    """By file, by passing on and by K=V; in the agent, in its windows and in exec."""
    secret = f"s3cr3t {ODD}"
    (tmp_path / "env").write_bytes(b"FROM_FILE='" + os.fsencode(RAW.replace("\x7f", "")) + b" s3cr3t'\n")
    argv = [
        "create",
        "foo",
        "--env-file",
        str(tmp_path / "env"),
        "--pass-env",
        "PASSED",
        "-w",
        "w=env -0 >w.log; sleep 1000",
    ]
    mngr(*argv, "--", "sleep", "1000", env={"PASSED": secret})
    agent = mngr.get_agent("foo")
    wanted = {"PASSED": secret, "FROM_FILE": RAW.replace("\x7f", "") + " s3cr3t"}
    seen = environ(agent["pid"])
    assert {key: seen.get(key) for key in wanted} == wanted
    log = mngr.get_work_dir("foo") / "w.log"
    rows = wait_for(lambda: log.exists() and (data := log.read_bytes()).count(b"MNGR_BRANCH=") and data).split(b"\0")
    assert {os.fsencode(f"{k}={v}") for k, v in wanted.items()} <= set(rows)
    assert mngr("exec", "foo", "--", "sh", "-c", 'printf %s "$PASSED"').out == secret
    assert [place for place, data in everything_running().items() if b"s3cr3t" in data] == []
    holders = [
        path
        for path in mngr.home.rglob("*")
        if path.is_file() and not path.is_symlink() and b"s3cr3t" in path.read_bytes()
    ]
    assert [path.relative_to(mngr.home).as_posix() for path in holders if "work/" not in str(path)] == [
        f"agents/{agent['id']}/env"
    ]
    assert holders[0].stat().st_mode & 0o777 == 0o600 and holders[0].parent.stat().st_mode & 0o077 == 0


def test_what_is_not_given_does_not_reach_any_agent(mngr: MngrProgram) -> None:
    """Also not when the caller's command is the one that starts the tmux server."""
    caller = {"CALLERS_SECRET": "s3cr3t", "AWS_TOKEN": "s3cr3t"}
    mngr(
        "create",
        "one",
        "-w",
        "w=env >w.log; sleep 1000",
        "--idle-timeout",
        "1h",
        "--",
        "sleep",
        "1000",
        env=caller,
    )
    mngr("create", "two", "--", "sleep", "1000")
    for name in ("one", "two"):
        assert "s3cr3t" not in str(environ(mngr.get_agent(name)["pid"]))
        assert "s3cr3t" not in mngr("exec", name, "--", "env", env=caller).out
    assert "s3cr3t" not in str(mngr.run_json("exec", "one", "two", "--", "env", env=caller))
    log = mngr.get_work_dir("one") / "w.log"
    assert "s3cr3t" not in wait_for(lambda: log.exists() and log.read_text())
    mngr("stop", "one", env=caller)
    mngr("start", "one", env=caller)
    assert "s3cr3t" not in str(environ(mngr.get_agent("one")["pid"]))
    assert "s3cr3t" not in mngr.run_tmux("show-environment", "-g")
    assert [place for place, data in everything_running().items() if b"CALLERS_SECRET" in data] == []


def test_an_agent_starts_with_the_callers_language_and_programs(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--env", "LANG=de_DE.UTF-8", "--", "sleep", "1000")
    seen = environ(mngr.get_agent("foo")["pid"])
    given_ = {key: seen.get(key) for key in ("HOME", "PATH", "LANG", "TZ")}
    assert given_ == {"HOME": mngr.env["HOME"], "PATH": mngr.env["PATH"], "LANG": "de_DE.UTF-8", "TZ": "UTC"}
    own = {key for key in seen if key.startswith("MNGR_")}
    assert set(seen) - own <= {*given_, "TERM", "COLORTERM", "PWD", "OLDPWD"}
    assert not [key for key in seen if key.startswith("_mngr")]


def test_an_agent_that_moves_keeps_what_it_was_given() -> None:
    base, given, own = (
        {"HOME": "/a", "PATH": "/bin"},
        {"PATH": "/mine", "X": "a\n# given\nb"},
        {"MNGR_AGENT_ID": "1"},
    )
    text = environment.format_env_file(base, given, own)
    moved = environment.replace_agent_part(text, {"MNGR_AGENT_ID": "2"}, {"HOME": "/b", "PATH": "/usr/bin"})
    assert moved == environment.format_env_file({"HOME": "/b", "PATH": "/usr/bin"}, given, {"MNGR_AGENT_ID": "2"})
    assert environment.replace_agent_part(text, own) == text
    assert environment.replace_agent_part(
        environment.format_env_file({}, {}, own), own, base
    ) == environment.format_env_file(base, {}, own)
