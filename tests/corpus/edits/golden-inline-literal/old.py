import textwrap

import pytest

from fmtsql import format_sql


@pytest.fixture
def golden(tmp_path):
    path = tmp_path / "expected.sql"
    path.write_text("SELECT a,\n       b\nFROM t\nWHERE a > 1;\n")
    return path


def test_format_select(golden):
    assert format_sql("select a,b from t where a>1") == golden.read_text()
