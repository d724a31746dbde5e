"""Commands that run many agents, and commands that show the results.

`run_options.py` holds their common options; `tmr/` has the commands `mngr tmr ...`.
"""
