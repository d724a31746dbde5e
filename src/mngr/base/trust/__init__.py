"""Decides which settings and files of a project or work dir mngr uses. A stranger or an agent can have written them.

Start with `project_trust.py`.
"""
