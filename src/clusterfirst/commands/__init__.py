"""The commands, by group: each one a thin door to public functions of the package.

Importing these modules imports nothing but the standard library, typer and
`errors.py`, so that `--help` is quick; each command imports what it needs.
"""
