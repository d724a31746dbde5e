"""Test tools for users and plugin authors: the provider contract, a scripted model, a sample project.

Start with `contract/__init__.py`.
"""
