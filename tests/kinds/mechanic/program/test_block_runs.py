"""What is said of blocks of which no test can be made, and what that costs those after them."""

from __future__ import annotations

import os
import time

from mngr.kinds.mechanic.program.block_runs import BlockRunner, JobBlock, ObservedBlock, observe_block, try_block


def bench(timeout: float = 0.5) -> BlockRunner:
    return BlockRunner("sh", os.environ["PATH"], timeout, lambda: None)


def block(text: str, *before: str) -> JobBlock:
    return JobBlock("id", "slug", 1, text, None, [(None, one) for one in before])


def test_the_reason_is_the_blocks_own() -> None:
    """However often what comes before it fails, and for whatever reason."""
    shared = bench()
    began = time.monotonic()
    for _ in range(5):
        assert try_block(block("cat none", "sleep 9"), shared) == (
            False,
            "it ends with 1: cat: none: No such file or directory",
        )
    assert try_block(block("read x; echo $x", "sleep 9"), shared) == (
        False,
        "it asks for input: it ends with 1",
    )
    assert try_block(block("echo 'x", "#!/bin/sh"), shared)[1].startswith("it ends with 2: sh: ")
    assert try_block(block("echo fine", "sleep 9"), shared) == (True, "fine")
    assert shared.failing_setups == ["sleep 9"]
    assert time.monotonic() - began < 5  # what does not end is waited for once


def test_as_little_before_it_as_it_takes() -> None:
    found = observe_block(block("cat one", "echo 1 >one", "echo 2 >two"), bench(5))
    assert isinstance(found, ObservedBlock) and (found.setup, found.out) == ("echo 1 >one", ["1"])
    assert block("x", "a", "b").exclude_setup({"a"}).preceding_blocks == [(None, "b")]
