"""Remove hosts that mngr created.

Start with `removal.py`; `agents/lifecycle/choose_and_start_hosts.py` chooses, starts and stops hosts.
"""
