"""The reasons for blocks without a test, and the effect of such blocks on later ones."""

from __future__ import annotations

import os
import time

from mngr.kinds.mechanic.program.stable_block_output import (
    BlockRunner,
    JobBlock,
    ObservedBlock,
    observe_block,
    try_block,
)


def make_runner(timeout: float = 0.5) -> BlockRunner:
    return BlockRunner("sh", os.environ["PATH"], timeout, lambda: None)


def make_block(text: str, *preceding: str) -> JobBlock:
    return JobBlock("id", "slug", 1, text, None, [(None, preceding_text) for preceding_text in preceding])


def test_the_reason_is_that_of_the_block_and_not_of_its_setup() -> None:
    """The set-up fails each time, for various reasons."""
    runner = make_runner()
    started_at = time.monotonic()
    for _ in range(5):
        assert try_block(make_block("cat none", "sleep 9"), runner) == (
            False,
            "it exits with 1: cat: none: No such file or directory",
        )
    assert try_block(make_block("read x; echo $x", "sleep 9"), runner) == (
        False,
        "it asks for input: it exits with 1",
    )
    assert try_block(make_block("echo 'x", "#!/bin/sh"), runner)[1].startswith("it exits with 2: sh: ")
    assert try_block(make_block("echo fine", "sleep 9"), runner) == (True, "fine")
    assert runner.failing_setups == ["sleep 9"]
    assert time.monotonic() - started_at < 5  # it waits only once for a set-up that does not end


def test_a_block_runs_after_the_smallest_setup_that_works() -> None:
    observation = observe_block(make_block("cat one", "echo 1 >one", "echo 2 >two"), make_runner(5))
    assert isinstance(observation, ObservedBlock) and (observation.setup, observation.out) == ("echo 1 >one", ["1"])
    assert make_block("x", "a", "b").exclude_setup({"a"}).preceding_blocks == [(None, "b")]
