"""The version, said once: the build reads it here, and so does the command line."""

__version__ = "0.1.0"
