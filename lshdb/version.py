"""The library's version; not the number of the on-disk format (``params.FORMAT``)."""

__version__ = "0.1.0"
