"""Kind `aider`.

Start with `kind.py`; `aider_inside.py` runs on the host, inside aider's own Python.
"""
