"""Remove hosts that mngr created.

Start with `removal.py`; choosing, starting and stopping hosts is in `lifecycle/hosts.py`.
"""
