"""`gc`: finish what was interrupted and clean up what is too old, here and on other hosts.

Start with `gc.py`.
"""
