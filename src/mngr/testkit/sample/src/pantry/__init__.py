"""A pantry: a list of items in a file of the current directory."""

VERSION = "1.4"
