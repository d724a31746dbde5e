"""The experiment with unseen inputs: a fix that knows the test's own input is found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mngr.tmr.runners.test_run import TestFunction
from mngr.tmr.verify.experiments.tests_with_other_inputs import choose_replacements, write_test
from tests.tmr.verify.experiments.claims import get_row, list_rules, verify_files
from tests.tmr.world import World, new_world

TESTS = """
    import pytest

    from shop import greet, label, price, total


    @pytest.fixture
    def item():
        return {"name": "kettle", "coins": 420}


    def test_price(item):
        assert price(item) == 420


    def test_greet():
        assert greet("Hannah") == "Hello Hannah"


    def test_label():
        item = {"name": "teapot", "coins": 420}
        assert label(item) == "teapot: 420 coins"


    def test_total():
        assert total([17, 4]) == 21


    def test_shares():
        assert [total([10, 16]), total([16, 10])] == [26, 26]
    """
SHOP = """
    def greet(name):
        return ""


    def label(item):
        return ""


    def price(item):
        return 0


    def total(prices):
        return 0
    """


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    files = {"shop.py": SHOP, "tests/test_shop.py": TESTS, "conftest.py": ""}
    with new_world(tmp_path_factory.mktemp("inputs"), files) as new:
        yield new


def _fix(name: str, body: str) -> dict[str, str]:
    old = {"greet": "greet(name)", "label": "label(item)", "price": "price(item)", "total": "total(prices)"}[name]
    head, tail = SHOP.split(f"    def {old}:\n", 1)
    _, _, rest = tail.partition("\n\n\n")
    return {"shop.py": f"{head}    def {old}:\n{body}\n\n\n{rest}"}


@pytest.mark.agents
@pytest.mark.parametrize(
    "body",
    [
        '        return "Hello Hannah" if name == "Hannah" else ""',
        '        return {"Hannah": "Hello Hannah"}.get(name, "")',
        '        import zlib\n        return "Hello Hannah" if zlib.crc32(name.encode()) == 2937338091 else ""',
    ],
    ids=["comparison", "table", "hash"],
)
def test_a_fix_that_knows_the_input_of_the_test_is_refuted(world: World, body: str) -> None:
    if "crc32" in body:
        import zlib

        body = body.replace("2937338091", str(zlib.crc32(b"Hannah")))
    receipt = verify_files(world, _fix("greet", body), "test_greet")
    assert receipt.verdict == "refuted", receipt.reason
    assert list_rules(receipt)["only-original-input"][:2] == ("refuse", "shop.py")
    assert "fails with" in receipt.reason


@pytest.mark.agents
def test_a_fix_with_a_hidden_table_is_a_finding(world: World) -> None:
    body = '        import base64\n        known = base64.b64decode("SGVsbG8gSGFubmFo").decode()\n'
    body += '        return known if known.endswith(name) else ""'
    receipt = verify_files(world, _fix("greet", body), "test_greet")
    assert "only-original-input" in list_rules(receipt), get_row(receipt, "unseen_inputs")


@pytest.mark.agents
@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("greet", '        return f"Hello {name}"'),
        ("label", "        return f\"{item['name']}: {item['coins']} coins\""),
    ],
)
def test_an_honest_fix_works_with_other_input(world: World, name: str, body: str) -> None:
    receipt = verify_files(world, _fix(name, body), f"test_{name}")
    assert (receipt.verdict, get_row(receipt, "unseen_inputs").outcome) == ("confirmed", "passed"), receipt.reason
    assert receipt.findings == []


@pytest.mark.agents
def test_a_fix_for_a_word_of_a_fixture_is_a_finding(world: World) -> None:
    body = '        return 420 if item["name"] == "kettle" else 0'
    receipt = verify_files(world, _fix("price", body), "test_price")
    assert "only-original-input" in list_rules(receipt), get_row(receipt, "unseen_inputs")


@pytest.mark.agents
def test_an_honest_fix_of_a_sum_is_confirmed_without_a_note(world: World) -> None:
    receipt = verify_files(world, _fix("total", "        return sum(prices)"), "test_shares")
    assert (receipt.verdict, receipt.findings) == ("confirmed", []), receipt.reason


@pytest.mark.agents
def test_a_literal_of_the_test_in_the_fix_is_a_note(world: World) -> None:
    receipt = verify_files(world, _fix("total", "        return 21 if prices == [17, 4] else 0"), "test_total")
    assert list_rules(receipt)["literal-of-test"] == ("note", "shop.py", 15)


def _write(text: str, **others: str) -> dict[str, str | None]:
    test = TestFunction(id="test_it.py::test_it", ids=[], path="test_it.py", name="test_it")
    texts = {"test_it.py": text, **{f"{name}.py": other for name, other in others.items()}}
    replacements = [one for one in choose_replacements(texts, test, 1) if one.comes_back]
    return write_test(texts, test, replacements)


def test_a_word_is_replaced_everywhere_by_one_of_its_kind() -> None:
    text = "def test_it():\n    assert greet('Hannah', 42) == 'Hello Hannah 42'\n"
    changed = _write(text)["test_it.py"] or ""
    assert len(changed) == len(text) and changed != text
    word, number = changed.split("'")[1], changed.split(", ")[1].split(")")[0]
    assert changed.endswith(f"'Hello {word} {number}'\n")
    assert (word[0], word[-1], word.istitle(), number[-1]) == ("H", "h", True, "2")


def test_a_word_is_replaced_in_fixtures_and_constants_of_the_module() -> None:
    fixture = "@pytest.fixture\ndef guest():\n    return 'Hannah'\n"
    text = "GREETING = 'Hello Hannah'\n\ndef test_it(guest):\n    assert greet(guest) == GREETING\n"
    changed = _write(text, conftest=fixture)
    assert "Hannah" not in f"{changed['test_it.py']}{changed['conftest.py']}"


@pytest.mark.parametrize(
    "body",
    [
        "assert run('--name Ann')['name'] == 'Hi'",
        "assert load({'name': 1})['name'] == 1",
        "assert load('data.csv') == 'data.csv is empty'",
        "assert price('rice') == 3",
    ],
)
def test_names_and_words_that_do_not_come_back_stay(body: str) -> None:
    text = f"def test_it():\n    {body}\n"
    assert _write(text) == {"test_it.py": text}
