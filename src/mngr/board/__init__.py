"""`mngr board`: a full-screen view of all agents and runs, built with textual.

Start with `app.py`. The facts come from `mngr.overview`; only this package imports textual.
"""
