"""Error messages of engines and the choice of an image."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from mngr.base.errors import HostStopped, MngrError, Unreachable, UsageError
from mngr.base.paths import Home
from mngr.providers.docker import images as docker_image
from mngr.providers.docker.docker_cli import DockerCli, DockerTransport, choose_cli, parse_error

GONE = "the container box is gone"
STOPPED = "the host box is stopped"


@pytest.mark.parametrize(
    ("said", "kind", "message"),
    [
        ("Error response from daemon: Container 40497 is not running", HostStopped, STOPPED),
        ("Error response from daemon: Container box is paused, unpause it first", HostStopped, STOPPED),
        ("Error: can only create exec sessions on running containers: container state improper", HostStopped, STOPPED),
        ("Error response from daemon: No such container: box", Unreachable, GONE),
        ('Error: no container with name or ID "box" found: no such container', Unreachable, GONE),
        ("Cannot connect to the Docker daemon at unix:///x. Is it running?", Unreachable, "Cannot connect"),
        ("error during connect: Get x: command [ssh] has exited: stderr=ssh: no such name", Unreachable, "ssh: no such name"),
        ("permission denied while trying to connect to the Docker daemon socket", Unreachable, "you have no permission to use"),
        ("Error: unable to connect to Podman socket: dial unix /x", Unreachable, "unable to connect"),
        ("half a word of the com", Unreachable, "box: half a word"),
        ("", Unreachable, "box: the connection ended"),
    ],
)  # fmt: skip
def test_a_lost_connection_becomes_an_error_with_its_reason(said: str, kind: type[Unreachable], message: str) -> None:
    error = DockerTransport(DockerCli(["docker"]), "docker", "box", "4f5e", "1000:1000", "/home/agent").make_lost_error(
        said
    )
    assert type(error) is kind and message in error.message and error.hint


def test_every_call_has_a_time_limit() -> None:
    with pytest.raises(Unreachable, match="sleep did not answer"):
        DockerCli(["sleep"]).run("60", timeout=0.1)


def test_error_messages_are_shown_without_their_prefix() -> None:
    stderr = (
        b"WARNING: old\ndocker: Error response from daemon: network x not found\n\nRun 'docker run --help' for more\n"
    )
    assert parse_error(stderr) == "network x not found"
    assert parse_error(b"Error: nosuch:1: image not known\n") == "nosuch:1: image not known"
    with pytest.raises(MngrError, match="it broke: bad spec"):
        DockerCli(["sh", "-c", "echo 'Error: bad spec' >&2; exit 1"]).run_checked("it broke")


def test_a_hint_names_the_engine_that_the_settings_choose() -> None:
    engine = choose_cli({"program": "podman", "context": "far"})
    error = engine.build_error("it broke", b"Error: write /var/lib: no space left on device\n")
    assert error.hint == "free some disk space; see what uses it: podman --connection far system df"


def test_the_settings_choose_program_context_and_host() -> None:
    assert choose_cli({}).words == ["docker"]
    assert choose_cli({"context": "far"}).words == ["docker", "--context", "far"]
    assert choose_cli({"host": "ssh://x"}).words == ["docker", "--host", "ssh://x"]
    podman = {"program": "/usr/bin/podman", "context": "far", "host": "ssh://x"}
    assert choose_cli(podman).words == ["/usr/bin/podman", "--connection", "far", "--url", "ssh://x"]


@pytest.mark.parametrize("text", ["plain", "naïve \\ ✓ %s $x `y` 'z'", os.fsdecode(b"caf\xe9 \\0101 \\n")])
def test_a_program_with_special_characters_reaches_the_shell_unchanged(text: str) -> None:
    program = "printf %s '" + text.replace("'", "'\\''") + "'"
    words = DockerTransport(DockerCli(["docker"]), "docker", "box", "4f5e", "0:0", "/x").build_argv(program)
    result = subprocess.run(words[words.index("4f5e") + 1 :], capture_output=True, check=True)
    assert all(word.isascii() for word in words) and os.fsdecode(result.stdout) == text


def test_the_tag_of_a_built_image_depends_on_its_contents(tmp_path: Path) -> None:
    home = Home(str(tmp_path / "home"))
    folder = tmp_path / "context"
    folder.mkdir()
    (folder / "data").write_text("1")
    file = folder / "Dockerfile"

    def build_tag(text: str, **args: str) -> str:
        file.write_text(text)
        options = {"dockerfile": "Dockerfile", **{f"arg.{key}": value for key, value in args.items()}}
        image, snapshot_tar = docker_image.choose_image(options, str(folder), home)
        assert snapshot_tar is None and image.name.startswith("mngr-build:")
        return image.name

    without_files, with_files = "FROM x\nCOPY --from=y /a /b\n", "FROM x\n copy data /\n"
    first = [build_tag(without_files), build_tag(without_files, A="1"), build_tag(with_files)]
    assert len(set(first)) == 3 and build_tag(without_files, A="1") == first[1]
    (folder / "data").write_text("2")
    second = [build_tag(without_files), build_tag(without_files, A="1"), build_tag(with_files)]
    assert second[:2] == first[:2] and second[2] != first[2]
    assert docker_image.choose_image({"image": "a:1"}, "/", home)[0].name == "a:1"
    default, _ = docker_image.choose_image({}, "/", home)
    assert default.dockerfile is not None and b"git" in default.dockerfile and b"tmux" in default.dockerfile
    for invalid_options in ({"image": "a", "dockerfile": "b"}, {"image": "a", "arg.X": "1"}):
        with pytest.raises(UsageError):
            docker_image.choose_image(invalid_options, "/", home)
    with pytest.raises(MngrError, match="cannot read the Dockerfile"):
        docker_image.choose_image({"dockerfile": "nowhere"}, str(folder), home)
