"""From a tutorial script to the tests that cite it: blocks, citations, what is missing between them.

Start with `blocks.py` and `check.py`.
"""
