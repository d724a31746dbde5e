"""Tests what pages get from the artifacts of e2e tests."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mngr.web import artifacts


@pytest.fixture
def test_dir(tmp_path: Path) -> Path:
    directory = tmp_path / "run" / "test"
    directory.mkdir(parents=True)
    (directory / "meta.json").write_text("{}")
    return directory


def read_recording(tmp_path: Path) -> str:
    (recording,) = artifacts.read_recordings(str(tmp_path), "run", artifacts.load_test(str(tmp_path), "run", "test"))
    return recording.text


def test_recordings_are_redacted(tmp_path: Path, test_dir: Path) -> None:
    key = "sk-ant-" + "abcdefgh" * 4
    events = [[0.1, "o", f"key: {key[:15]}"], [0.2, "o", f"{key[15:]} end"], [0.3, "i", key]]
    lines = [json.dumps({"version": 2, "width": 80, "height": 24, "title": key}), *map(json.dumps, events)]
    lines.append(f'[0.4, "o", "{key}"'.replace("-", "\\u002d"))  # cut off
    lines.append(f'[0.4, "o", "{key}"]'.replace("-", "\\u002d"))
    (test_dir / "a.cast").write_text("\n".join(lines))
    text = read_recording(tmp_path)
    assert "abcdefgh" not in text.replace(lines[-2], "")
    shown = "".join(json.loads(line)[2] for line in text.splitlines()[1:] if line.endswith("]"))
    assert shown.count("[redacted: an API key]") == 3 and shown.startswith("key: ") and " end" in shown


@pytest.mark.parametrize("line", ["[1]", "[1, 2, 3]", "null", "{}", "[" * 100_000, '["a", "o", "b"]', ""])
def test_a_damaged_recording_is_shown_as_it_is(tmp_path: Path, test_dir: Path, line: str) -> None:
    (test_dir / "a.cast").write_text(f"{line}\n")
    assert read_recording(tmp_path).strip() == line


@pytest.mark.parametrize("name", ["meta.json", "transcript.txt", "a.cast"])
@pytest.mark.parametrize("kind", ["pipe", "link", "directory"])
def test_a_file_that_a_test_replaced_is_not_read(tmp_path: Path, test_dir: Path, name: str, kind: str) -> None:
    (tmp_path / "secret").write_text('{"test": "secret"}')
    path = test_dir / name
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(tmp_path / "secret")
    else:
        path.mkdir()
    test = artifacts.load_test(str(tmp_path), "run", "test")
    recordings = list(artifacts.read_recordings(str(tmp_path), "run", test))
    assert test.name == "test"
    assert artifacts.read_transcript(str(tmp_path), "run", "test") == ""
    assert [recording.text.strip() for recording in recordings] == ([""] if name == "a.cast" else [])
