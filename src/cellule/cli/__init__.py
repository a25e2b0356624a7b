"""The command line: one file per noun, `main` puts them together, `session` opens what they work on.

Nothing but words, tables and exit codes lives here: what a command needs to know of a store is in `host`.
"""
