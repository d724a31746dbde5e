"""The page with all runs and the page of one run.

Start with `run_pages.py`. `run_stream.py` sends what changes.
"""
