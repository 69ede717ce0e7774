"""The command line, one module a family of commands. Each command reads, calls the library and prints.

Exit codes: 0 done · 2 the call or its input cannot be used, with the reason on stderr · 130 interrupted.
"""

from sourcewise.cli.app import app, main

__all__ = ["app", "main"]
