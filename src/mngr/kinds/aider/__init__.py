"""Kind `aider`.

Start with `kind.py`; `aider_wrapper.py` runs on the host, inside aider's own Python.
"""
