"""Pages of e2e test runs and of the tutorial, served to this machine or written as files.

Start with `server.py`.
"""
