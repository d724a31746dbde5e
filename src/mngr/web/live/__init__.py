"""The server of `mngr web`: agents, runs, e2e test runs and the tutorial. Only this package imports starlette.

Start with `app.py`, which lists all paths. `security.py` decides which requests are answered.
"""
