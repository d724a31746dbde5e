"""Provider `modal`: Modal sandboxes.

Start with `provider.py`; `bridge.py` and what it imports run in the Python that has Modal's library.
"""
