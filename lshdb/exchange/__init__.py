"""Export an index to files in open formats, and rebuild it from them; see ``docs/export.md``."""
