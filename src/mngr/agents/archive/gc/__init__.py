"""`gc`: finishes interrupted commands and removes what is too old, on this machine and on other hosts.

Start with `gc.py`.
"""
