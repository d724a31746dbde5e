"""Tests of the pages in a real Chromium: their content, the player, and that text from tests never runs."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from mngr.e2e import E2eSession
from mngr.e2e.session import TestDescription
from mngr.web import player_or_last_screen
from tests.conftest import MngrProgram
from tests.support.browser import Browser
from tests.support.live_page import LiveServer

HOSTILE = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>&amp;\"'"
RUN = "20260102-030405-abcd"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


@pytest.fixture
def artifacts_dir(tmp_path: Path) -> Path:
    """Artifacts of two tests, one of them as hostile as possible, and of two broken ones."""
    artifacts_dir = tmp_path / "e2e"
    session = E2eSession(
        artifacts_dir / RUN / "test_good-1", TestDescription("t.py::test_good", doc="It says hello.", file="t.py")
    )
    session.write_tutorial_block("# say hello\necho hello")
    session.run("echo hello; echo oops >&2; exit 3", comment="say hello")
    with session.tty("echo one; sleep 0.3; echo two", name="talk") as terminal:
        terminal.wait()
    session.close()
    session.save_status("passed")
    hostile = E2eSession(artifacts_dir / RUN / "test_bad-2", TestDescription(HOSTILE, doc=HOSTILE, file=HOSTILE))
    hostile.write_tutorial_block(HOSTILE)
    hostile.run(f"cat <<'E'\n{HOSTILE}\nE")
    with hostile.tty(f"cat <<'E'\n</script>{HOSTILE}\nE", name="x") as terminal:
        terminal.wait()
    hostile.close()
    hostile.save_status("failed", failure=HOSTILE)
    (artifacts_dir / RUN / "broken-3").mkdir()
    (artifacts_dir / RUN / "broken-3" / "meta.json").write_text("[" * 100_000)
    (artifacts_dir / RUN / "link-4").symlink_to("/etc")
    return artifacts_dir


@pytest.fixture
def pages(artifacts_dir: Path, mngr: MngrProgram, tmp_path: Path) -> Path:
    first = mngr("web", "--e2e", str(artifacts_dir), "--export", str(tmp_path / "pages")).out.strip()
    assert first == str(tmp_path / "pages" / "index.html")
    shutil.rmtree(artifacts_dir)  # The pages need no other files.
    return tmp_path / "pages"


def test_the_index_leads_to_a_run_and_its_tests_can_be_searched(browser: Browser, pages: Path) -> None:
    browser.open(f"file://{pages}/index.html")
    assert browser.ask("document.querySelector('td a').textContent") == RUN
    assert "1 failed, 1 running, 1 passed" in browser.ask("document.body.innerText")
    browser.ask("document.querySelector('td a').click()")
    browser.wait("document.readyState === 'complete' && document.title === " + repr(RUN))
    rows = "[...document.querySelectorAll('#tests tr:not([hidden]) td:first-child')].map(row => row.innerText)"
    names = browser.wait(rows)
    assert [name.split(" ")[0] for name in names] == ["failed", "running", "passed"]
    browser.ask("find.value = 'hello'; find.dispatchEvent(new Event('input'))")
    assert browser.ask(rows) == ["passed t.py::test_good"]


def test_a_test_page_shows_description_transcript_and_terminals_side_by_side(browser: Browser, pages: Path) -> None:
    browser.open(f"file://{pages}/{RUN}/test_good-1/index.html")
    text = browser.ask("document.body.innerText")
    for expected in (
        "t.py::test_good",
        "It says hello.",
        "# say hello\necho hello",
        "$ echo hello;",
        "! oops",
        "? 3",
    ):
        assert expected in text
    assert browser.ask("getComputedStyle(document.querySelector('.transcript .error')).color") == "rgb(207, 34, 46)"
    tops = browser.ask("[...document.querySelectorAll('.columns > section')].map(s => s.getBoundingClientRect().top)")
    assert len(tops) == 3 and len(set(tops)) == 1  # The sections are side by side.


def test_the_tutorial_page_shows_each_block_with_its_tests(
    browser: Browser, artifacts_dir: Path, mngr: MngrProgram, tmp_path: Path
) -> None:
    script = f"# say hello\necho hello\n\n# nobody tests\necho '{HOSTILE.replace(chr(39), '')}'\n\n# nothing yet\n"
    (mngr.repo / "tutorial.sh").write_text(script)
    mngr("web", "--e2e", str(artifacts_dir), "--export", str(tmp_path / "pages"))
    browser.open(f"file://{tmp_path}/pages/index.html")
    browser.ask("document.querySelector('a[href=\"tutorial.html\"]').click()")
    browser.wait("document.readyState === 'complete' && document.title === 'Tutorial'")
    blocks = browser.ask("[...document.querySelectorAll('.cited')].map(block => block.innerText)")
    assert "passed t.py::test_good, 1 recording" in blocks[0]
    assert "no test that ran cites it" in blocks[1]
    assert "no block yet" in blocks[2]
    assert "1 of 2 blocks are cited" in browser.ask("document.body.innerText")
    browser.ask("document.querySelector('.cited summary').click()")
    browser.wait("document.querySelector('.cited .ap-player')")
    opened = browser.ask("document.querySelector('.cited').innerText")
    assert "$ echo hello; echo oops >&2; exit 3\n" in opened and "talk" in opened
    browser.ask("find.value = 'NOBODY'; find.dispatchEvent(new Event('input'))")
    assert len(browser.ask("[...document.querySelectorAll('.cited:not([hidden])')].map(b => b.id)")) == 1
    assert browser.ask("typeof window.hacked") == "undefined" and browser.complaints == []
    browser.ask("document.querySelector('.cited a').click()")
    browser.wait("document.title === 't.py::test_good'")


def test_recordings_play_offline(browser: Browser, pages: Path, tmp_path: Path) -> None:
    assert player_or_last_screen.has_player(), "make setup fetches it with npm"
    browser.open(f"file://{pages}/{RUN}/test_good-1/index.html")
    browser.wait("document.querySelector('.ap-overlay-start')")
    browser.ask("document.querySelector('.ap-overlay-start').click()")
    browser.wait("document.querySelector('.ap-playback-button') && !document.querySelector('.ap-overlay-start')")
    browser.wait("(document.querySelector('.ap-time-elapsed') || {}).textContent")
    assert browser.complaints == []
    assert all(url.startswith(("file://", "data:", "blob:")) for url in browser.fetched)
    browser.photograph(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 10_000


def test_scripts_in_the_output_of_tests_do_not_run(browser: Browser, pages: Path) -> None:
    for page in ("index.html", f"{RUN}/index.html", f"{RUN}/test_bad-2/index.html"):
        browser.open(f"file://{pages}/{page}")
        assert browser.ask("typeof window.hacked") == "undefined"
        assert browser.complaints == []
    assert browser.ask("document.querySelectorAll('main img, main script:not([type])').length") == 0
    assert browser.ask("document.querySelector('.block').textContent") == HOSTILE
    assert HOSTILE in browser.ask("document.querySelector('.transcript').textContent")


def test_recordings_are_shown_as_text_without_the_player(artifacts_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mngr.web.live.e2e import e2e_paths

    monkeypatch.setattr(player_or_last_screen, "SCRIPT", "not-there.js")
    text = e2e_paths.render_test(str(artifacts_dir), RUN, "test_good-1")
    assert "The player is not installed" in text
    assert '<pre class="screen">one\ntwo</pre>' in text


@pytest.fixture
def server(artifacts_dir: Path, mngr: MngrProgram) -> Iterator[LiveServer]:
    with LiveServer(mngr, "--e2e", str(artifacts_dir)) as server:
        yield server


def test_the_server_renders_pages_for_every_request(browser: Browser, server: LiveServer, artifacts_dir: Path) -> None:
    browser.open(server.url)
    browser.open(f"{server.base}/tests/{RUN}/test_good-1/")
    browser.wait("document.querySelector('.ap-player')")
    assert browser.complaints == []
    assert all(fetched.startswith((server.base, "data:", "blob:")) for fetched in browser.fetched)
    browser.open(f"{server.base}/tests/{RUN}")
    assert browser.ask("location.pathname") == f"/tests/{RUN}/"
    E2eSession(
        artifacts_dir / RUN / "test_new-5", TestDescription("t.py::test_new")
    ).close()  # The server renders pages for every request.
    assert "t.py::test_new" in server.get(f"/tests/{RUN}/")[2]
    browser.ask("document.querySelector('.way a[href=\"/\"]').click()")
    browser.wait("document.title === 'agents'")


def test_hostile_tests_run_no_script_on_the_server_either(browser: Browser, server: LiveServer) -> None:
    browser.open(server.url)
    for page in ("", f"{RUN}/", f"{RUN}/test_bad-2/"):
        browser.open(f"{server.base}/tests/{page}")
        assert browser.ask("typeof window.hacked") == "undefined"
        assert browser.complaints == []


@pytest.mark.parametrize(
    "path",
    [
        "/tests/../../etc/passwd",
        "/tests/%2e%2e/",
        f"/tests/{RUN}/link-4/",
        f"/tests/{RUN}/nope/",
        "/tests/static/../e2e_run_pages.py",
        "/static/../e2e_run_pages.py",
        "/static/x",
        "/tests/a/b/c/",
    ],
)
def test_the_server_answers_404_for_unknown_and_unsafe_paths(server: LiveServer, path: str) -> None:
    code, _, text = server.get(path)
    assert code == 404 and "root:" not in text


def test_the_server_ends_quietly_with_ctrl_c_while_a_page_is_open(mngr: MngrProgram) -> None:
    server = LiveServer(mngr)
    with server.stream("/events") as events:
        next(iter(events))
        assert server.end(signal.SIGINT) == 0


def test_web_rejects_bad_input(mngr: MngrProgram, tmp_path: Path) -> None:
    no_artifacts = ["web", "--e2e", str(tmp_path / "no"), "--export", str(tmp_path / "pages")]
    assert "no artifacts of e2e tests in " in mngr(*no_artifacts, code=1).err
    (tmp_path / "e2e").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    words = ["web", "--e2e", str(tmp_path / "e2e"), "--export", str(tmp_path / "full")]
    assert "exists and holds other files" in mngr(*words, code=1).err
    assert os.listdir(tmp_path / "full") == ["mine.txt"]
    assert "cannot be combined" in mngr(*words, "--port", "1", code=2).err


def test_web_says_how_to_install_what_it_needs(mngr: MngrProgram, tmp_path: Path) -> None:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "starlette.py").write_text("raise ImportError")
    mngr.env["PYTHONPATH"] = str(tmp_path / "hidden")
    failed = mngr("web", code=1)
    assert failed.err == (
        "Error: mngr web needs the Python packages starlette and uvicorn\n"
        "Hint: install them: pipx inject mngr starlette uvicorn\n"
    )
