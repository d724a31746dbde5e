import pandas as pd
from pandas.testing import assert_frame_equal

from salesdash.agg import by_region


def test_by_region_sums_and_fills_missing():
    df = pd.DataFrame(
        {"region": ["n", "s", "n", "e"], "units": [3, 4, None, 5], "price": [2.0, 1.0, 9.0, 4.0]}
    )
    expected = pd.DataFrame(
        {"region": ["e", "n", "s"], "units": [5.0, 3.0, 4.0], "revenue": [20.0, 6.0, 4.0]}
    )
    assert_frame_equal(by_region(df), expected)
