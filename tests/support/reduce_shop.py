"""The sample shop of tests/support/reduce_world.py, its tests, and the edits of a hundred agents."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

Edit = tuple[str, str, str]  # path, old, new
Commit = tuple[str, list[Edit]]  # message, edits

CONFTEST = """import time

import pytest


@pytest.fixture
def stock():
    \"\"\"What is in the shop.\"\"\"
    return {{"tea": 5, "salt": 9}}


@pytest.fixture(autouse=True)
def _long():
    time.sleep({seconds})
"""
WORDS = (
    "amber basil cedar daisy elder fennel ginger hazel iris juniper kale laurel maple nettle olive poppy quince rose sage "
    "thyme umber violet willow yarrow zinnia"
).split()
WRONG = "shop/money.py"
SAME = (
    "    return round(amount * 100)\n",
    "    # A cent is a hundredth.\n    return round(amount * 100)\n",
    "    return round(amount*100)\n",
    "    return round(\n        amount * 100\n    )\n",
)


@dataclass(frozen=True)
class Branch:
    """The commits of one agent, and what may become of them."""

    test: str  # the test that the agent worked on
    kind: str  # text | semantic | same | breaks | harmless
    group: int  # branches that conflict with each other share a group
    commits: list[Commit]
    is_red: bool  # whether its test fails on the base
    flagged: tuple[str, ...] = ()  # paths that a person should look at
    is_needed: bool = True  # whether its test needs its change of the implementation


@dataclass
class Shop:
    """The files and tests of the base, and the branches. The same seed gives the same shop."""

    seed: int
    seconds: float = 0.0
    files: dict[str, str] = field(default_factory=dict)
    tests: dict[str, bool] = field(default_factory=dict)  # whether each test fails on the base
    branches: list[Branch] = field(default_factory=list)
    most: dict[int, int] = field(default_factory=dict)  # how many branches of a group can be integrated
    edges: int = 0  # number of textual conflicts

    def __post_init__(self) -> None:
        self._words = [f"{first}_{second}" for first in WORDS for second in WORDS]
        random.Random(self.seed).shuffle(self._words)
        self.files |= {
            ".gitignore": "__pycache__/\n",
            "README.md": "# The shop\n",
            "pyproject.toml": '[tool.pytest.ini_options]\ntestpaths = ["tests"]\n',
            "shop/__init__.py": '"""A shop."""\n',
            WRONG: '"""Money."""\n\n\ndef cents(amount):\n    """An amount in cents."""\n    return int(amount * 10)\n',
            "tests/conftest.py": CONFTEST.format(seconds=self.seconds),
        }

    def word(self) -> str:
        return self._words.pop()

    def function(self, path: str, name: str, args: str, *lines: str, head: str = "") -> None:
        """Add a module with one function."""
        body = "".join(f"    {line}\n" for line in lines)
        self.files[path] = f'{head}def {name}({args}):\n    """What {name} says."""\n{body}'

    def check(self, path: str, name: str, *lines: str, head: str, args: str = "", is_red: bool = False) -> str:
        """Add a test to a file, and return its id."""
        body = "".join(f"    {line}\n" for line in lines)
        text = self.files.get(path, f"{head}\n")
        self.files[path] = text + f'\n\ndef test_{name}({args}):\n    """The shop keeps to {name}."""\n{body}'
        self.tests[f"{path}::test_{name}"] = is_red
        return f"{path}::test_{name}"

    def add(
        self, test: str, kind: str, group: int, *commits: Commit, flagged: tuple[str, ...] = (), is_needed: bool = True
    ) -> None:  # fmt: skip
        self.branches.append(Branch(test, kind, group, list(commits), self.tests[test], flagged, is_needed))

    def group(self, most: int) -> int:
        self.most[len(self.most)] = most
        return len(self.most) - 1


def more(shop: Shop, path: str, line: str) -> Edit:
    """Return an edit that adds a line to the end of a file's last test."""
    last = shop.files[path].splitlines()[-1]
    return path, f"{last}\n", f"{last}\n    {line}\n"


# Textual conflicts: each branch is right alone, but edits the same lines.


def alternatives(shop: Shop, size: int = 2) -> None:
    """Add branches that repair the same line in different ways."""
    word, group = shop.word(), shop.group(1)
    shop.function(f"shop/{word}.py", word, "net, rate", "return net + rate")
    solutions = ("net + net * rate // 100", "net * (100 + rate) // 100", "(100 * net + rate * net) // 100")
    head = f"from shop.{word} import {word}\n"
    for number in range(size):
        lines = (f"assert {word}(200, {number + 5}) == {200 + 2 * (number + 5)}",)
        test = shop.check(f"tests/test_{word}.py", f"{word}_{number}", *lines, head=head, is_red=True)
        edit = (f"shop/{word}.py", "return net + rate", f"return {solutions[number]}")
        shop.add(test, "text", group, (f"[FIX_IMPL] {word} is a rate, way {number + 1}", [edit]))
    shop.edges += size * (size - 1) // 2


def features(shop: Shop) -> None:
    """Add two branches that change the same line differently, each with its own test."""
    word, group = shop.word(), shop.group(1)
    shop.function(f"shop/{word}.py", word, "name", "return name.strip()")
    head = f"from shop.{word} import {word}\n"
    for name, first, then, new in (
        ("large", '(" tea ").lower() == "tea"', '("tea") == "Tea"', "name.strip().title()"),
        ("short", '("green tea") != ""', '("green tea") == "gree"', "name.strip()[:4]"),
    ):
        path = f"tests/test_{word}_{name}.py"
        test = shop.check(path, f"{word}_{name}", f"assert {word}{first}", head=head)
        edits = [(f"shop/{word}.py", "name.strip()", new), more(shop, path, f"assert {word}{then}")]
        shop.add(test, "text", group, (f"[FIX_IMPL] {word} is {name}", edits))
    shop.edges += 1


def cases(shop: Shop) -> None:
    """Add two branches that both add a row to a table that their tests share."""
    word, group = shop.word(), shop.group(1)
    path = f"tests/test_{word}.py"
    shop.function(f"shop/{word}.py", word, "n", "return 2 * n")
    head = f"from shop.{word} import {word}\n\nCASES = [(1, 2)]\n"
    for number in range(2):
        line = "assert all(" + (f"{word}(n) == two", f"{word}(n) % 2 == 0")[number] + " for n, two in CASES)"
        test = shop.check(path, f"{word}_{number}", line, head=head)
        edit = (path, "[(1, 2)]", f"[(1, 2), ({number + 3}, {2 * number + 6})]")
        shop.add(test, "text", group, (f"[IMPROVE_TEST] {word}: a case more ({number + 3})", [edit]))
    shop.edges += 1


def chain(shop: Shop) -> None:
    """Add a branch that rewrites a table, and two that repair one line of the table each."""
    word, group = shop.word(), shop.group(2)
    rows = {"post": 3, "rail": 5, "road": 7, "sea": 9, "air": 11}
    path, head = f"shop/{word}.py", f"from shop.{word} import FEES\n"
    shop.files[path] = "FEES = {\n" + "".join(f'    "{name}": {fee},\n' for name, fee in rows.items()) + "}\n"
    rewritten = "FEES = dict(post=4, rail=5, road=7, sea=9, air=12)\n"
    for name, line, edit in (
        ("post", 'FEES["post"] == 4', (path, '"post": 3', '"post": 4')),
        ("both", 'FEES["post"] + FEES["air"] == 16', (path, shop.files[path], rewritten)),
        ("air", 'FEES["air"] == 12', (path, '"air": 11', '"air": 12')),
    ):
        test = shop.check(f"tests/test_{word}.py", f"{word}_{name}", f"assert {line}", head=head, is_red=True)
        shop.add(test, "text", group, (f"[FIX_IMPL] The fees of {word}: {name}", [edit]))
    shop.edges += 2


# Semantic conflicts: each branch is right alone and they merge, but together their tests fail.


def units(shop: Shop) -> None:
    """Add a branch that changes a weight to kilograms with all its callers, and one that starts to use grams."""
    word, group = shop.word(), shop.group(1)
    helper, post, label = (f"shop/{word}{part}.py" for part in ("", "_post", "_label"))
    head = f"from shop.{word} import weight\n"
    shop.function(helper, "weight", "name", 'return 500 if name == "tea" else 250')
    shop.function(post, "postage", "name", "return weight(name) / 1000 * 4", head=f"{head}\n\n")
    shop.function(label, "label", "name", "return name")
    own_test, other_test = f"tests/test_{word}.py", f"tests/test_{word}_label.py"
    test = shop.check(own_test, word, 'assert weight("tea") > weight("salt")', head=head)
    edits = [
        (helper, "500", "0.5"),
        (helper, "250", "0.25"),
        (post, " / 1000", ""),
        more(shop, own_test, 'assert weight("tea") == 0.5'),
    ]
    shop.add(test, "semantic", group, (f"[FIX_IMPL] {word} in kilograms", edits))
    shop.check(f"tests/test_{word}_post.py", f"{word}_post", 'assert postage("tea") == 2', head=f"from shop.{word}_post import postage\n")  # fmt: skip
    test = shop.check(other_test, f"{word}_label", 'assert label("tea").startswith("tea")', head=f"from shop.{word}_label import label\n")  # fmt: skip
    edits = [
        (label, "def label", f"{head}\n\ndef label"),
        (label, "return name", 'return f"{name} {weight(name)} g"'),
    ]
    shop.add(test, "semantic", group, (f"[FIX_IMPL] {word}: grams on the label", edits), ("[IMPROVE_TEST] Grams", [more(shop, other_test, 'assert label("tea") == "tea 500 g"')]))  # fmt: skip


def renamed(shop: Shop) -> None:
    """Add a branch that renames a function and all its calls, and one that adds a call."""
    word, group = shop.word(), shop.group(1)
    helper, cart, bill = (f"shop/{word}{part}.py" for part in ("", "_cart", "_bill"))
    head = f"from shop.{word} import total\n"
    shop.function(helper, "total", "prices", "return sum(prices)")
    shop.function(cart, "pay", "prices", "return total(prices) + 1", head=f"{head}\n\n")
    shop.function(bill, "bill", "prices", 'return f"{len(prices)} things"')
    own_test, other_test = f"tests/test_{word}.py", f"tests/test_{word}_bill.py"
    test = shop.check(own_test, word, "assert total([1, 2]) == 3", head=head)
    edits = [(path, old, old.replace("total", "total_of")) for path, old in (
        (helper, "def total"), (cart, "import total"), (cart, "return total"), (own_test, "import total"), (own_test, "assert total"),
    )]  # fmt: skip
    shop.add(test, "semantic", group, (f"[FIX_IMPL] {word}: the total of what", edits))
    shop.check(f"tests/test_{word}_cart.py", f"{word}_cart", "assert pay([1]) == 2", head=f"from shop.{word}_cart import pay\n")  # fmt: skip
    test = shop.check(other_test, f"{word}_bill", 'assert bill([1]).startswith("1 thing")', head=f"from shop.{word}_bill import bill\n")  # fmt: skip
    edits = [
        (bill, "def bill", f"{head}\n\ndef bill"),
        (bill, "things", "things, {total(prices)}"),
        more(shop, other_test, 'assert bill([1, 2]) == "2 things, 3"'),
    ]
    shop.add(test, "semantic", group, (f"[FIX_IMPL] {word}: the total on the bill", edits))


def stricter(shop: Shop) -> None:
    """Add a branch that rejects values that were clamped before, and one that tests the clamping."""
    word, group = shop.word(), shop.group(1)
    path = f"shop/{word}.py"
    shop.function(path, "clamp", "n", "return max(n, 0)")
    head = f"import pytest\n\nfrom shop.{word} import clamp\n"
    own_test, other_test = f"tests/test_{word}.py", f"tests/test_{word}_low.py"
    test = shop.check(own_test, word, "assert clamp(3) == 3", head=head)
    edits = [
        (path, "    return max(n, 0)", "    if n < 0:\n        raise ValueError(n)\n    return n"),
        more(shop, own_test, "pytest.raises(ValueError, clamp, -1)"),
    ]
    shop.add(test, "semantic", group, (f"[FIX_IMPL] {word} is never below nothing", edits))
    test = shop.check(other_test, f"{word}_low", "assert clamp(0) == 0", head=f"from shop.{word} import clamp\n")
    shop.add(test, "semantic", group, (f"[IMPROVE_TEST] {word} is cut", [more(shop, other_test, "assert clamp(-1) == 0")]))  # fmt: skip


# The same fix by many branches


def same(shop: Shop, count: int) -> None:
    """Add branches that repair the same line, half of them with different text."""
    group = shop.group(count)
    for number in range(count):
        path, head = f"tests/test_same_{number}.py", "from shop.money import cents\n"
        test = shop.check(
            path, f"same_{number}", f"assert cents({number + 1}) == {number + 1}00", head=head, is_red=True
        )
        new = SAME[0] if number % 2 == 0 else SAME[1 + number // 2 % 3]
        edit = (WRONG, "    return int(amount * 10)\n", new)
        shop.add(test, "same", group, (f"[FIX_IMPL] {('A hundred cents', 'Cents', 'Round cents')[number % 3]}", [edit]))  # fmt: skip


# Branches that break other tests


def squash(shop: Shop) -> None:
    """Add a branch with everything in one commit, including the fixture that others share."""
    word, group = shop.word(), shop.group(0)
    path, conftest = f"tests/test_{word}.py", "tests/conftest.py"
    shop.function(f"shop/{word}.py", word, "n", "return n // 10")
    test = shop.check(path, word, f'assert {word}(stock["tea"]) >= 0', head=f"from shop.{word} import {word}\n", args="stock")  # fmt: skip
    edits = [
        (conftest, '"tea": 5', '"tea": 50'),
        (f"shop/{word}.py", "n // 10", "max(n, 0) // 10"),
        more(shop, path, f'assert {word}(stock["tea"]) == 5'),
    ]
    shop.add(test, "breaks", group, (f"[FIX_TEST] {word} passes", edits), flagged=(conftest,), is_needed=False)  # fmt: skip


def breaker(shop: Shop, number: int) -> None:
    """Add a branch that helps its own test and breaks another: by a constant, a test helper, an order or a table."""
    word, group = shop.word(), shop.group(0)
    code, path, table = f"shop/{word}.py", f"tests/test_{word}.py", f"shop/{word}.json"
    head = f"from shop.{word} import {word}\n"
    shop.function(code, word, "x", *{0: ['return f"{x} EUR"'], 2: ["return sorted(x)[0]"], 3: [
        "with open(__file__[:-2] + 'json') as file:", "    return json.load(file)[x]"
    ]}.get(number, ["return x"]), head="import json\n\n\n" if number == 3 else "")  # fmt: skip
    victim, own_check, new_check, edit = (
        (f'{word}(1) == "1 EUR"', f'{word}(2).startswith("2")', f'{word}(2) == "2 USD"', (code, "EUR", "USD")),
        (f"near({word}(1), 1.05)", f"near({word}(1), 1)", f"not near({word}(1), 1.05)", (f"tests/near_{word}.py", "0.1", "0.01")),
        (f"{word}([1, 2]) == 1", f"{word}([3]) == 3", f"{word}([3, 4]) == 4", (code, "[0]", "[-1]")),
        (f'{word}("tea") == 3', f'{word}("tea") > 0', f'{word}("tea") == 4', (table, "3", "4")),
    )[number]  # fmt: skip
    if number == 1:
        shop.files[f"tests/near_{word}.py"] = "def near(a, b):\n    return abs(a - b) < 0.1\n"
        head = f"from near_{word} import near\n\n{head}"
    if number == 3:
        shop.files[table] = '{"tea": 3}\n'
    shop.check(f"tests/test_{word}_too.py", f"{word}_too", f"assert {victim}", head=head)
    test = shop.check(path, word, f"assert {own_check}", head=head)
    kind = "FIX_TEST" if number == 1 else "FIX_IMPL"
    shop.add(test, "breaks", group, (f"[{kind}] {word} for one", [edit, more(shop, path, f"assert {new_check}")]))


# Branches that can always be integrated


def harmless(shop: Shop, number: int) -> None:
    """Add a harmless branch: a fix with its test, an edit of a test, a fix of a failing test, two commits or a text."""
    word, group = shop.word(), shop.group(1)
    code, path, doc = f"shop/{word}.py", f"tests/test_{word}.py", f"docs/{word}.md"
    shop.function(code, word, "n", "return n + 1")
    shop.files[doc] = f"# {word}\n\nIt adds.\n"
    is_red = number == 2
    line = f'assert {word}(stock["tea"]) == {7 if is_red else 6}'
    test = shop.check(path, word, line, head=f"from shop.{word} import {word}\n", args="stock", is_red=is_red)
    fix = (code, "return n + 1", "return n + 2" if is_red else "return max(n, 0) + 1")
    edit = more(shop, path, f"assert {word}({-1 if number in (0, 3) else 1}) {'== 1' if number in (0, 3) else '> 1'}")
    commits: list[Commit] = [
        [(f"[FIX_IMPL] {word} of what is below nothing", [fix, edit])],
        [(f"[IMPROVE_TEST] {word} of one", [edit])],
        [(f"[FIX_IMPL] {word} adds two", [fix])],
        [(f"[IMPROVE_TEST] {word} below nothing", [edit]), (f"[FIX_IMPL] {word} counts from nothing", [fix])],
        [(f"[FIX_DOC] What {word} does", [(doc, "It adds.", "It adds one.")])],
    ][number]  # fmt: skip
    shop.add(test, "harmless", group, *commits)


def rest(shop: Shop, count: int) -> None:
    """Add tests that no branch touches."""
    for number in range(count):
        path = f"tests/test_rest_{number // 10}.py"
        shop.check(path, f"rest_{number}", 'assert stock["tea"] == 5', head="import shop  # noqa: F401\n", args="stock")  # fmt: skip
