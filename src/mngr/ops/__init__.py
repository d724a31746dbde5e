"""One verb a file. Nothing here prints or knows a command line."""
