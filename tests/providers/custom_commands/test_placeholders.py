"""Templates: what is missing is reported, and words are passed unchanged."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mngr.base.errors import UsageError
from mngr.providers.custom_commands.placeholders import OutputPattern, ProviderTemplate
from tests.conftest import MngrProgram, kill_tmux_servers
from tests.providers.custom_commands.test_contract import GUIDES, preset

WHOLE: dict[str, Any] = {
    "create": ["make", "{name}", "--tag={tag}", ["--size", "{size}"], "{image}"],
    "exec": ["run", "{id}", "{program}"],
    "destroy": ["end", "{name}"],
}


def make_template(**more: Any) -> ProviderTemplate:
    return ProviderTemplate("box", {key: value for key, value in {**WHOLE, **more}.items() if value is not None})


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"exec": None}, "[providers.box] does not set exec"),
        ({"create": ["make", "{image}"]}, "the command create in [providers.box] does not contain {tag} or {name}"),
        ({"exec": ["run", "{id}"]}, "the command exec in [providers.box] does not contain {program} or {quoted}"),
        (
            {"exec": ["run", "{program}"]},
            "the command exec in [providers.box] does not contain {id} or {name} or {tag}",
        ),
        ({"exec": ["run", "{id}", "{progam}", "{program}"]}, "[providers.box] exec: there is no placeholder {progam}"),
        ({"destroy": ["end", "{id}"]}, "the command destroy in [providers.box] contains only {id}"),
        ({"stop": ["stop", "{id}"]}, "[providers.box] sets stop but not start"),
        ({"snapshot": ["keep", "{id}"]}, "[providers.box] sets snapshot but not drop_snapshot"),
        ({"exec": "run {id} {program}"}, "[providers.box] exec is not a list of words"),
        ({"exec": ["run", 1]}, "[providers.box] exec is not a list of words"),
    ],
)
def test_an_incomplete_template_is_reported(more: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        make_template(**more).check()


def test_values_stay_single_words_and_other_braces_are_unchanged() -> None:
    provider_template = make_template(exec=["run", "--format={{.ID}}", "{id}", "{program}", "{end}"])
    provider_template.check()
    program = "echo '{name}' \"$x\" {id}\nnext"
    filled = provider_template.fill_command("exec", {"id": "i 1", "name": "n", "program": program})
    assert filled == ["run", "--format={{.ID}}", "i 1", program, "{end}"]


def test_a_nested_list_is_optional_and_other_placeholders_are_required() -> None:
    values = {"name": "n", "tag": "t", "image": "i"}
    assert make_template().option_names == ("size", "image")
    assert make_template().fill_command("create", values) == ["make", "n", "--tag=t", "i"]
    assert make_template().fill_command("create", {**values, "size": "2"}) == [
        "make",
        "n",
        "--tag=t",
        "--size",
        "2",
        "i",
    ]
    with pytest.raises(UsageError, match=r"the placeholder \{image\} of create in \[providers.box\] has no value"):
        make_template().fill_command("create", {"name": "n", "tag": "t"})


def test_an_output_pattern_matches_texts_and_exit_codes() -> None:
    pattern = OutputPattern("box", "busy", [75, "no (room|space)"])
    assert pattern.is_match("", 75) and pattern.is_match("x\nNo Room left", 1) and not pattern.is_match("roomy", 1)
    with pytest.raises(UsageError, match=r"\[providers.box\] busy"):
        OutputPattern("box", "busy", "(")


def test_every_template_in_the_guide_is_complete() -> None:
    names = re.findall(r"^```toml (\w+)$", "".join(guide.read_text() for guide in GUIDES), re.MULTILINE)
    assert set(names) == {"box", "podman", "kubernetes", "e2b", "daytona", "fly"}
    for name in names:
        ProviderTemplate(name, {**(preset("box") if name == "podman" else {}), **preset(name)}).check()


def test_a_host_that_cannot_be_stopped_takes_several_agents(mngr: MngrProgram, tmp_path: Path) -> None:
    words = {
        "kind": "template",
        "home": str(tmp_path / "there"),
        "create": ["echo", "{name}"],
        "exec": ["sh", "-c", "{program}", "{name}"],
        "destroy": ["true", "{name}"],
    }
    mngr.env.update({f"MNGR__PROVIDERS__BOX__{key.upper()}": json.dumps(value) for key, value in words.items()})
    for name in ("foo", "bar"):
        mngr("create", f"{name}@one.box", "--transfer", "none", "--", "sleep", "1000")
    assert {agent["host"] for agent in mngr.list_agents()} == {"one"}
    mngr("destroy", "--force", "@one.box")
    kill_tmux_servers(tmp_path / "there")


def test_a_command_that_was_removed_from_the_template_is_reported() -> None:
    with pytest.raises(UsageError, match=re.escape("[providers.box] does not set exec")):
        make_template(exec=None).fill_command("exec", {"id": "i", "program": "true"})


def test_the_reported_line_is_the_one_that_matches() -> None:
    output = "docker: Cannot connect to the Docker daemon.\n\nRun 'docker run --help' for more information\n"
    assert (
        OutputPattern("box", "away", "cannot connect").get_line(output)
        == "docker: Cannot connect to the Docker daemon."
    )
    assert OutputPattern("box", "away", 125).get_line(output) == "Run 'docker run --help' for more information"
    assert OutputPattern("box", "away", "x").get_line("\n") == "it gave no reason"
