"""What mngr may obey, read and write in projects and work dirs that can come from a stranger or from an agent.

Start with `project_trust.py`.
"""
