"""`python -m sourcewise`."""

from sourcewise.cli import main

main()
