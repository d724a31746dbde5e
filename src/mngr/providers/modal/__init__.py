"""Provider `modal`: Modal sandboxes.

Start with `provider.py`. `modal_calls.py` and its imports run in the Python that has Modal's library.
"""
