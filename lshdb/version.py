"""The library's version; not the number of the on-disk format (``index_params.FORMAT``).

A file of its own: the build reads the version without importing anything else.
"""

__version__ = "0.1.0"
