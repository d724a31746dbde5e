"""The branch in the user's repository, the text of the pull request, and the forge.

Start with `branch.py` and `pull_request_text.py`.
"""
