"""An index as files in open formats, from which it can be made again; see ``docs/export.md``."""
