"""An agent's own copy of the project: where it comes from, how it is made, set up and removed.

Start with `source.py` and `transfer.py`.
"""
