"""The test runner for pytest. Start with `runner.py`.

`in_clean_room/` holds the programs that run beside the tests; `observer_report.py` and `read_results.py` read their report.
"""
