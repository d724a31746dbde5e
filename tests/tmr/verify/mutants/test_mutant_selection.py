"""Which faults there are for a text, and which of them are chosen."""

from __future__ import annotations

import ast
import textwrap

import pytest

from mngr.tmr.verify.mutants.mutant_selection import Mutant, choose_mutants, list_mutants
from tests.support.paths import ROOT

SRC = ROOT / "src/mngr"


def made(text: str, *lines: int) -> list[Mutant]:
    """All mutants of a text, of some of its lines."""
    text = textwrap.dedent(text).lstrip("\n")
    found = list_mutants("x.py", text, lines or range(1, 99))
    for mutant in found:
        assert text[mutant.start : mutant.end] == mutant.old
    return found


def after(text: str, kind: str, *lines: int) -> list[str]:
    """The lines as mutants of one kind have them."""
    return sorted({mutant.after for mutant in made(text, *lines) if mutant.kind == kind})


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("comparison", "x = a < b", ["x = a <= b"]),
        ("comparison", "x = a < b <= c", ["x = a < b < c", "x = a <= b <= c"]),
        ("comparison", "x = (a) not  in (b)", ["x = (a) in (b)"]),
        ("comparison", "x = a is not None", ["x = a is None"]),
        ("logic", "x = a and b", ["x = a or b"]),
        ("logic", "x = not (a)", ["x = (a)"]),
        ("logic", "x = True", ["x = False"]),
        ("arithmetic", "x = a + b * c", ["x = a + b // c", "x = a - b * c"]),
        ("arithmetic", "x += y", ["x -= y"]),
        ("arithmetic", "x = 'é' * (a - b)", ["x = 'é' * (a + b)"]),
        ("number", "x = 5", ["x = 4", "x = 6"]),
        ("number", "x = y[0]", ["x = y[1]"]),
        ("text", "x = 'ab'", ["x = ''", "x = 'abX'"]),
        ("text", "x = f'{a}'", ['x = ""', "x = (\"X\" + f'{a}')", "x = (f'{a}' + \"X\")"]),
        ("condition", "x = a if b else c", ["x = a if False else c", "x = a if True else c"]),
        (
            "condition",
            "x = [a for a in b if a]",
            ["x = [a for a in b if False]", "x = [a for a in b if True]"],
        ),
        ("slice", "x = y[a:b]", ["x = y[:b]", "x = y[a:]"]),
        ("call", "save(x)", ["pass"]),
        ("argument", "f(a, b=c, **d)", ["f(a, **d)"]),
        ("argument", "f(a, b=c)", ["f(a)"]),
        ("default", "add('--n', default=3)", ["add('--n', default=2)", "add('--n', default=4)"]),
        ("default", "add('--n', action='store_true')", ["add('--n', action=\"store_false\")"]),
    ],
)
def test_a_fault_replaces_a_part_of_an_expression(kind: str, text: str, expected: list[str]) -> None:
    assert after(text, kind) == expected


def test_a_fault_replaces_a_whole_statement() -> None:
    text = """
        def f(a, b=1):
            for x in a:
                if x:
                    continue
                break
            while x > 2:
                break
            if b:
                raise ValueError(a)
            return a
        """
    assert after(text, "loop") == ["break", "continue"]
    assert [mutant.line for mutant in made(text) if mutant.kind == "loop"] == [
        4,
        5,
    ]  # not the one that might never end
    assert after(text, "condition", 6) == ["while False:"]
    assert after(text, "raise") == ["pass"]
    assert after(text, "result") == ["return None"]
    assert after(text, "default") == ["def f(a, b=0):", "def f(a, b=2):"]


@pytest.mark.parametrize(
    "text",
    [
        '"""A docstring."""',
        'def f():\n    """A docstring."""',
        "log.debug('x', 1 + 2)",
        "self.logger.info(f'{x}')",
        "logger = logging.getLogger('x')",
        "__all__ = ['a', 'b']",
        "T = TypeVar('T', bound='X')",
        "x: Literal['a', 1]",
        "def f(x: 'int' = None) -> 'str': pass",
        "if TYPE_CHECKING:\n    x = 1 + 2",
        "if __name__ == '__main__':\n    pass",
        "import x",
        "assert x > 3, 'no'",
        "x = 'a' +",
    ],
)
def test_what_no_test_could_see_is_left_alone(text: str) -> None:
    assert [mutant.name for mutant in made(text)] == []


def test_only_lines_that_are_run() -> None:
    text = """
        def f(a):
            if a > 1:
                return a + 1
            call(a,
                 3)
            return a - 1
        """
    assert {mutant.line for mutant in made(text, 1, 2, 6)} == {2, 6}
    assert {mutant.line for mutant in made(text, 4)} == {4, 5}


def test_the_choice_is_spread_and_decided_by_the_seed() -> None:
    body = "".join(f"    a{n} = b{n} > {n}\n    c(d{n} + e)\n" for n in range(30))
    sources = dict.fromkeys(("a.py", "b.py", "c.py"), f"def f(x):\n{body}    return x\nY = 1\n")
    lines = {name: range(1, 99) for name in sources}
    found = choose_mutants(sources, lines, 12, seed=1)
    assert found == choose_mutants(sources, lines, 12, seed=1) != choose_mutants(sources, lines, 12, seed=2)
    assert len({(one.path, one.line) for one in found}) == len(found) == 12
    assert {one.path for one in found} == set(sources)
    assert {one.kind for one in found} >= {"comparison", "arithmetic", "number", "call", "result"}
    assert all("Y = " not in one.before for one in found)


def test_fewer_where_there_are_no_more() -> None:
    assert len(choose_mutants({"a.py": "x = a < b\n"}, {"a.py": [1]}, 20)) == 1
    assert choose_mutants({"a.py": "x = a < b\n"}, {"b.py": [1]}, 20) == []


def test_mutants_of_real_code_are_programs() -> None:
    sources = {str(path): path.read_text() for path in sorted((SRC / "e2e").glob("*.py"))}
    lines = {path: range(1, text.count("\n") + 1) for path, text in sources.items()}
    for mutant in choose_mutants(sources, lines, 15, seed=3):
        text = sources[mutant.path]
        assert ast.dump(ast.parse(mutant.apply(text))) != ast.dump(ast.parse(text))
