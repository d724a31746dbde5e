"""Settings, the state of the machine, help, and the final cleanup."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.request import Request, urlopen

from mngr.e2e import E2eSession, expect
from tests.docs.tutorial.conftest import agents, run_all


def test_init_writes_the_settings_of_the_project(e2e: E2eSession, shop: Path) -> None:
    e2e.write_tutorial_block("""
    # find the command that prepares a fresh copy of the project, and write it to the project's settings
    mngr init --dry-run
    mngr init
    """)
    run_all(e2e, "printf 'requests==2.0\\n' > requirements.txt")
    result = e2e.run("mngr init --dry-run", comment="inspect the project")
    expect(result).to_succeed()
    expect(result.stdout).to_match("^setup = .*requirements.txt")
    expect(shop).to_match_tree({".mngr/settings.toml": None})
    expect(e2e.run("mngr init", comment="write the settings")).to_succeed().to_contain(
        f"wrote {shop}/.mngr/settings.toml"
    )
    expect(shop).to_match_tree({".mngr/settings.toml": result.stdout})
    expect(e2e.run("mngr init")).to_fail(1).to_match_lines("""
        Error: [CWD]/.mngr/settings.toml already exists
        Hint: replace it: mngr init --force; or print the new settings: mngr init --dry-run
    """)


def test_config_list_shows_all_settings_and_their_sources(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # list all settings with their values and sources
    mngr config list
    mngr config path
    """)
    run_all(e2e, "mngr config set stop.grace 1s", "mngr config set project.setup 'make it'")
    result = e2e.run("mngr config list", comment="list all settings", env={"COLUMNS": "200"})
    expect(result).to_succeed().to_match_lines("""
        KEY                  VALUE        SOURCE
        project.setup        make it      project ([CWD]/.mngr/settings.toml)
        pull.max_bytes       10737418240  default
        pull.max_file_bytes  1073741824   default
        pull.max_files       100000       default
        pull.timeout         1h           default
        stop.grace           1s           user ([ROOT]/place/home/settings.toml)
        trash.keep           30d          default
        tutorial.timeout     30s          default
    """)
    result = e2e.run("mngr config path", comment="show the settings files")
    expect(result).to_succeed().to_match_lines("""
        SOURCE ...
        user     [ROOT]/place/home/settings.toml ... yes
        project  [CWD]/.mngr/settings.toml ... yes
        local    [CWD]/.mngr/settings.local.toml ... no
    """)


def test_config_sets_gets_and_unsets_one_setting(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # set, print and remove a setting
    mngr config set stop.grace 1s
    mngr config get stop.grace
    mngr config unset stop.grace
    """)
    expect(e2e.run("mngr config set stop.grace 1s", comment="write a setting")).to_succeed()
    expect(e2e.run("mngr config get stop.grace", comment="read the setting")).to_succeed().to_equal("1s")
    expect(e2e.run("mngr config unset stop.grace", comment="remove the setting")).to_succeed()
    expect(e2e.run("mngr config get stop.grace", comment="restore the default")).to_equal("2s")
    expect(e2e.run("mngr config set stop.grce 1s")).to_fail(2).to_match_lines("""
        Error: config set: there is no setting 'stop.grce'
        Hint: did you mean 'stop.grace'?
    """)
    expect(e2e.run("mngr config set stop.grace soon")).to_fail(2).to_match_lines("""
        Error: config set: stop.grace: 'soon' is not a length of time
        Hint: write it as 90s, 10m, 1h30m or 2d
    """)


def test_settings_that_somebody_else_wrote_need_trust(e2e: E2eSession, shop: Path) -> None:
    e2e.write_tutorial_block("""
    # read the commands in a project's settings, and allow mngr to run them
    mngr trust --show
    mngr trust --yes
    """)
    (shop / ".mngr").mkdir(exist_ok=True)
    (shop / ".mngr/settings.toml").write_text('[project]\nsetup = "echo set up"\n')
    result = e2e.run("mngr trust --show", comment="show the commands in the settings")
    expect(result).to_succeed().to_contain("not trusted", 'project.setup = "echo set up"')
    expect(e2e.run("mngr trust --yes", comment="allow the commands")).to_succeed()
    expect(e2e.run("mngr trust --show")).to_succeed().to_contain(": trusted")


def test_local_settings_leave_the_project_settings_unchanged(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # change a setting that only you use in this project; the project's shared settings do not change
    mngr config set project.setup 'echo set up' --local
    mngr config unset project.setup
    """)
    run_all(e2e, "mngr config set project.setup 'make it'")
    result = e2e.run(
        "mngr config set project.setup 'echo set up' --local", comment="change a setting only for yourself"
    )
    expect(result).to_succeed().to_match_lines("project.setup is set in [CWD]/.mngr/settings.local.toml")
    expect(e2e.run("mngr config get project.setup")).to_equal("echo set up")
    expect(e2e.run("mngr config unset project.setup")).to_succeed()
    expect(e2e.run("mngr config get project.setup", comment="read the project setting")).to_equal("make it")
    result = e2e.run("mngr config set project.setup 'echo set up' --local", cwd=e2e.root)
    expect(result).to_fail(1).to_match_lines("""
        Error: [ROOT] is not in a project, so it has no local settings
        Hint: go to a project: cd DIR; or use your own settings: --user
    """)


def test_a_setting_changes_the_default_of_an_option(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # change an option's default value
    mngr config set commands.list.fields name,state,branch
    mngr list
    mngr config unset commands.list.fields
    """)
    run_all(e2e, "mngr create foo -- sleep 1000", "mngr config set commands.list.fields name,state,branch")
    expect(e2e.run("mngr list", comment="change the default of an option")).to_succeed().to_match_lines("""
        NAME  STATE    BRANCH
        foo   RUNNING  mngr/foo
    """)
    run_all(e2e, "mngr config unset commands.list.fields")
    expect(e2e.run("mngr list")).to_match("^NAME  STATE    KIND ")
    expect(e2e.run("mngr config set commands.lst.fields name")).to_fail(2).to_match_lines("""
        Error: mngr has no command 'lst'
        Hint: did you mean 'list'?
    """)


def test_a_setting_can_apply_to_one_command_only(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # change a setting for one command only
    mngr -S stop.grace=0.5s stop poet-2
    """)
    run_all(e2e, "mngr create poet-2 player")
    result = e2e.run("mngr -S stop.grace=0.5s stop poet-2", comment="change a setting for one command only")
    expect(result).to_succeed().to_equal("stopped poet-2")
    assert agents(e2e)["poet-2"]["state"] == "STOPPED"
    expect(e2e.run("mngr config get stop.grace")).to_equal("2s")
    expect(e2e.run("mngr -S stop.grace stop poet-2")).to_fail(2).to_match_lines("""
        Error: 'stop.grace' is not KEY=VALUE
        Hint: for example: -S project.setup='uv sync'
    """)


def test_doctor_shows_what_is_installed_and_missing(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # check whether this machine has all programs that mngr needs
    mngr doctor
    """)
    e2e.write_tutorial_block("""
    # list the installed plugins
    mngr plugin list
    """)
    result = e2e.run("mngr doctor", comment="check whether this machine has all programs that mngr needs")
    expect(result).to_succeed().to_match("^ok +git +git version").to_match("^ok +tmux +tmux ")
    expect(e2e.run("mngr plugin list", comment="list the installed plugins")).to_succeed()
    run_all(e2e, "mkdir ../bin && for x in sh git mngr python3; do ln -s $(command -v $x) ../bin/$x; done")
    result = e2e.run("PATH=$PWD/../bin mngr doctor", comment="a machine with few programs")
    expect(result).to_fail(1)
    expect(result.stdout).to_match("^ok +git ").to_match("^error +tmux +tmux is not installed$")
    expect(result.stderr).to_match_lines("""
        Error: 4 checks failed: tmux, tar, awk, find
        Hint: install tmux ...
    """)


def test_model_server_prints_its_url(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # start a server that answers like a model, and print its URL for coding agents; the command timeout ends this example after one second
    timeout 1 mngr model-server '[{"sh": "echo hi > hi.txt"}, {"text": "done"}]' || test $? -eq 124
    """)
    result = e2e.run(
        """timeout 1 mngr model-server '[{"sh": "echo hi > hi.txt"}, {"text": "done"}]'""",
        comment="point coding agents at the URL that it prints",
    )
    expect(result).to_fail(124).to_match_lines("http://127.0.0.1:[NUMBER] (?)")
    expect(e2e.run("""mngr model-server '[{"sh"'""")).to_fail(2).to_match_lines("""
        Error: the script is not JSON: ...
        Hint: write a list of steps, for example: ...
    """)


def test_model_server_answers_from_its_script(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # start a server that answers like a model, and print its URL for coding agents; the command timeout ends this example after one second
    timeout 1 mngr model-server '[{"sh": "echo hi > hi.txt"}, {"text": "done"}]' || test $? -eq 124
    """)
    server = e2e.tty(
        """mngr model-server '[{"text": "good morning"}]'""", name="model", comment="start a scripted model"
    )
    expect(server.wait_for(r"http://127.0.0.1:\d+$")).to_match_lines("<url>")
    tool = {
        "type": "function",
        "function": {"name": "sh", "parameters": {}},
    }  # without tools nothing is played
    question = {"model": "any", "messages": [{"role": "user", "content": "hello"}], "tools": [tool]}
    e2e.comment("what an agent asks it")
    url = e2e.names["url"] + "/v1/chat/completions"
    with urlopen(Request(url, json.dumps(question).encode(), {"Content-Type": "application/json"})) as answer:
        assert json.load(answer)["choices"][0]["message"]["content"] == "good morning"
    server.press("C-c")
    assert server.wait() in (0, 130)


def test_web_exports_pages_of_test_artifacts(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # write web pages with the transcripts and recordings of tests
    mkdir -p .mngr/e2e
    mngr web --e2e .mngr/e2e --export ../pages
    """)
    expect(e2e.run("mngr web --e2e .mngr/e2e --export ../pages")).to_fail(1).to_match_lines("""
        Error: no artifacts of e2e tests in [CWD]/.mngr/e2e
        Hint: run tests that use the e2e fixture: pytest
    """)
    run_all(e2e, "mkdir -p .mngr/e2e")
    result = e2e.run("mngr web --e2e .mngr/e2e --export ../pages", comment="export pages of tests")
    expect(result).to_succeed().to_equal(f"{e2e.cwd}/../pages/index.html")
    expect((e2e.cwd / "../pages/index.html").read_text()).to_contain("<html")


def test_completion_prints_a_script_for_bash(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # print a script with which your shell completes mngr commands
    mngr completion bash > ../mngr.bash
    """)
    expect(
        e2e.run(
            "mngr completion bash > ../mngr.bash",
            comment="print a script with which your shell completes mngr commands",
        )
    ).to_succeed()
    expect(e2e.run("bash -c '. ../mngr.bash; complete -p mngr'")).to_succeed().to_match("^complete .* mngr$")
    expect(e2e.run("mngr completion csh")).to_fail(2).to_match_lines("""
        Error: mngr has no completion script for 'csh'
        Hint: use one of: bash, zsh, fish
    """)


def test_help_covers_commands_and_topics(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # print the help of mngr, the help of one command and the help of one topic
    mngr --help
    mngr help create
    mngr help states
    mngr list --help
    """)
    e2e.write_tutorial_block("""
    # print the version of mngr
    mngr version
    """)
    result = e2e.run("mngr --help", comment="print the help of mngr, the help of one command and the help of one topic")
    expect(result).to_succeed().to_contain("Usage: mngr COMMAND", "Start here: mngr create fix claude")
    expect(e2e.run("mngr help create")).to_succeed().to_contain("Usage: mngr create", "--branch", "Examples")
    expect(e2e.run("mngr help states")).to_succeed().to_contain("RUNNING", "WAITING", "PARKED")
    expect(e2e.run("mngr list --help")).to_succeed().to_contain("Usage: mngr list", "--filter")
    expect(e2e.run("mngr lst")).to_fail(2).to_match_lines("""
        Error: mngr has no command 'lst'
        Hint: did you mean 'list'?
    """)
    expect(e2e.run("mngr help moonlight")).to_fail(2).to_match_lines("""
        Error: there is no help on 'moonlight'
        Hint: topics: ..., states; all commands: mngr help all
    """)
    result = e2e.run("mngr version", comment="print the version of mngr")
    expect(result).to_succeed().to_match_lines("mngr <version>")


def test_all_agents_and_the_directory_can_be_removed(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # destroy all agents and delete the scratch directory
    mngr list --ids | mngr destroy --force -
    rm -rf "$(dirname "$PWD")"
    """)
    run_all(e2e, "mngr create w --count 2 -- sleep 1000", "mngr create stopped player", "mngr stop stopped")
    pids = [agent["pid"] for agent in agents(e2e).values() if agent["pid"]]
    assert len(pids) == 2
    result = e2e.run("mngr list --ids | mngr destroy --force -", comment="destroy all agents")
    expect(result).to_succeed().to_match_lines("destroyed ... (3)")
    assert agents(e2e) == {}
    expect(e2e.run('rm -rf "$(dirname "$PWD")"', comment="delete the scratch directory")).to_succeed()
    assert not (e2e.root / "place").exists()
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
