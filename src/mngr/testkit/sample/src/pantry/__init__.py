"""What is in the pantry, kept in a file of the directory one is in."""

VERSION = "1.4"
