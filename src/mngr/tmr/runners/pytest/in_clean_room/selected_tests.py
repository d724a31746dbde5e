"""Plugin of the observer: runs only some of the collected tests, in a random order if that was asked for.

Standard library and pytest only, Python 3.9 or newer.
"""

from __future__ import annotations

import base64
import random
import zlib
from typing import Any

import pytest

observer: Any = globals().get("observer")  # set by the observer


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Keep the tests that were asked for, and shuffle them if that was asked for."""
    if observer.FACTS.get("selected") is not None:
        text = zlib.decompress(base64.b64decode(observer.FACTS["selected"])).decode("utf-8", "surrogateescape")
        selected = set(text.split("\n"))
        others = [item for item in items if observer.get_test_id(item) not in selected]
        items[:] = [item for item in items if observer.get_test_id(item) in selected]
        if others:
            config.hook.pytest_deselected(items=others)
    if observer.FACTS.get("shuffle") is not None:
        items[:] = _shuffle(items, observer.FACTS["shuffle"])


def _shuffle(items: list[Any], seed: int) -> list[Any]:
    """Return the tests in a random order. The tests of a module, and those of a class, stay together."""
    source = random.Random(seed)
    order: dict[Any, tuple[float, float, float]] = {}
    module_ranks: dict[str, float] = {}
    class_ranks: dict[tuple[str, Any], float] = {}
    for item in items:
        path, test_class = observer.get_path(item), getattr(item, "cls", None)
        module_rank = module_ranks.setdefault(path, source.random())
        rank = source.random()
        class_rank = rank if test_class is None else class_ranks.setdefault((path, test_class), rank)
        order[item] = (module_rank, class_rank, rank)
    return sorted(items, key=order.__getitem__)
