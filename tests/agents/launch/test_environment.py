"""Tests that an agent gets exactly the variables it should, through a real sh, with env files and secrets."""

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
def test_values_survive_a_real_shell_unchanged(
    tmp_path_factory: pytest.TempPathFactory, variables: dict[str, str]
) -> None:
    file = tmp_path_factory.mktemp("env") / "env"
    file.write_bytes(environment.format_exports(variables))
    argv = ["env", "-i", "sh", "-c", '. "$0"; exec env -0', str(file)]
    rows = subprocess.run(argv, capture_output=True, check=True).stdout.split(b"\0")
    actual = dict(row.split(b"=", 1) for row in rows if row.startswith(b"X_"))
    assert actual == {os.fsencode(k): os.fsencode(v) for k, v in variables.items()}


def read_env_text(tmp_path: Path, text: str) -> dict[str, str]:
    """Return the variables of an env file with this text."""
    (tmp_path / "env").write_bytes(os.fsencode(text))
    return environment.collect_user_variables([str(tmp_path / "env")], [], {})


def test_env_file_supports_comments_quotes_and_multiple_lines(tmp_path: Path) -> None:
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
    assert read_env_text(tmp_path, text) == {
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
def test_an_invalid_env_file_is_reported_with_its_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(MngrError, match=r"line \d of .*env"):
        read_env_text(tmp_path, text)


def test_later_sources_of_variables_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("one", "A=1\nB=1\nC=1\nD=1"), ("two", "B=2\nC=2\nD=2")):
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("C", "3")
    monkeypatch.setenv("D", "3")
    files = [str(tmp_path / name) for name in ("one", "two")]
    assert environment.collect_user_variables(files, ["C", "D"], {"D": "4=x"}) == {
        "A": "1",
        "B": "2",
        "C": "3",
        "D": "4=x",
    }


def test_invalid_variables_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    cases: list[tuple[list[str], list[str], dict[str, str], type[MngrError]]] = [
        ([], ["NOT_SET"], {}, MngrError),
        ([str(tmp_path / "nowhere")], [], {}, MngrError),
        ([], [], {"": "x"}, UsageError),
        ([], [], {"1A": "x"}, UsageError),
        ([], [], {"MNGR_AGENT_ID": "x"}, UsageError),
        ([], [], {"_mngr_dir": "x"}, UsageError),
        ([], ["A-B"], {}, UsageError),
    ]
    for files, passed_names, variables, error in cases:
        with pytest.raises(error):
            environment.collect_user_variables(files, passed_names, variables)


def test_create_rejects_a_variable_without_a_value(mngr: MngrProgram) -> None:
    result = mngr("create", "foo", "--env", "NOVALUE", "--", "true", code=2)
    assert "--env: 'NOVALUE' is not NAME=VALUE" in result.err and "--pass-env" in result.err


# ---- through the whole program


def read_environ(pid: int) -> dict[str, str]:
    """Return the environment of a running process."""
    raw = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return dict(os.fsdecode(row).split("=", 1) for row in raw if b"=" in row)


def read_process_texts() -> dict[str, bytes]:
    """Return the command line of every process and the environment of every tmux server, by path."""
    texts: dict[str, bytes] = {}
    for process_dir in Path("/proc").glob("[0-9]*"):
        try:
            line = (process_dir / "cmdline").read_bytes()
            texts[f"{process_dir}/cmdline"] = line
            if line.startswith(b"tmux"):
                texts[f"{process_dir}/environ"] = (process_dir / "environ").read_bytes()
        except OSError:
            continue
    return texts


def test_values_arrive_unchanged_and_stay_secret(mngr: MngrProgram, tmp_path: Path) -> None:
    """Values from a file, passed on and as K=V reach the agent, its windows and exec."""
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
    expected = {"PASSED": secret, "FROM_FILE": RAW.replace("\x7f", "") + " s3cr3t"}
    actual = read_environ(agent["pid"])
    assert {key: actual.get(key) for key in expected} == expected
    log = mngr.get_work_dir("foo") / "w.log"
    rows = wait_for(lambda: log.exists() and (data := log.read_bytes()).count(b"MNGR_BRANCH=") and data).split(b"\0")
    assert {os.fsencode(f"{k}={v}") for k, v in expected.items()} <= set(rows)
    assert mngr("exec", "foo", "--", "sh", "-c", 'printf %s "$PASSED"').out == secret
    assert [source for source, data in read_process_texts().items() if b"s3cr3t" in data] == []
    holders = [
        path
        for path in mngr.home.rglob("*")
        if path.is_file() and not path.is_symlink() and b"s3cr3t" in path.read_bytes()
    ]
    assert [path.relative_to(mngr.home).as_posix() for path in holders if "work/" not in str(path)] == [
        f"agents/{agent['id']}/env"
    ]
    assert holders[0].stat().st_mode & 0o777 == 0o600 and holders[0].parent.stat().st_mode & 0o077 == 0


def test_other_variables_of_the_caller_reach_no_agent(mngr: MngrProgram) -> None:
    """This also holds when the caller's command starts the tmux server."""
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
        assert "s3cr3t" not in str(read_environ(mngr.get_agent(name)["pid"]))
        assert "s3cr3t" not in mngr("exec", name, "--", "env", env=caller).out
    assert "s3cr3t" not in str(mngr.run_json("exec", "one", "two", "--", "env", env=caller))
    log = mngr.get_work_dir("one") / "w.log"
    assert "s3cr3t" not in wait_for(lambda: log.exists() and log.read_text())
    mngr("stop", "one", env=caller)
    mngr("start", "one", env=caller)
    assert "s3cr3t" not in str(read_environ(mngr.get_agent("one")["pid"]))
    assert "s3cr3t" not in mngr.run_tmux("show-environment", "-g")
    assert [source for source, data in read_process_texts().items() if b"CALLERS_SECRET" in data] == []


def test_an_agent_starts_with_the_callers_language_and_programs(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--env", "LANG=de_DE.UTF-8", "--", "sleep", "1000")
    variables = read_environ(mngr.get_agent("foo")["pid"])
    inherited = {key: variables.get(key) for key in ("HOME", "PATH", "LANG", "TZ")}
    assert inherited == {"HOME": mngr.env["HOME"], "PATH": mngr.env["PATH"], "LANG": "de_DE.UTF-8", "TZ": "UTC"}
    mngr_names = {key for key in variables if key.startswith("MNGR_")}
    assert set(variables) - mngr_names <= {*inherited, "TERM", "COLORTERM", "PWD", "OLDPWD"}
    assert not [key for key in variables if key.startswith("_mngr")]


def test_a_moved_agent_keeps_the_users_variables() -> None:
    host_variables, user_variables, agent_variables = (
        {"HOME": "/a", "PATH": "/bin"},
        {"PATH": "/mine", "X": "a\n# given\nb"},
        {"MNGR_AGENT_ID": "1"},
    )
    private_names = {"PATH", "X"}
    text = environment.format_env_file(host_variables, user_variables, agent_variables, private_names)
    moved = environment.replace_agent_part(text, {"MNGR_AGENT_ID": "2"}, {"HOME": "/b", "PATH": "/usr/bin"})
    assert moved == environment.format_env_file(
        {"HOME": "/b", "PATH": "/usr/bin"}, user_variables, {"MNGR_AGENT_ID": "2"}, private_names
    )
    assert environment.replace_agent_part(text, agent_variables) == text
    assert environment.replace_agent_part(
        environment.format_env_file({}, {}, agent_variables), agent_variables, host_variables
    ) == environment.format_env_file(host_variables, {}, agent_variables)
