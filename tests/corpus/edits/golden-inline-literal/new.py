import textwrap

from fmtsql import format_sql


def test_format_select():
    expected = textwrap.dedent(
        """\
        SELECT a,
               b
        FROM t
        WHERE a > 1;
        """
    )
    assert format_sql("select a,b from t where a>1") == expected
