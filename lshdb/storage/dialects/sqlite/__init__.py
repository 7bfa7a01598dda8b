"""Everything that is SQLite's own: connections, transactions, and the SQL it needs in its own form.

database.py   where the file is; connections, and their settings
session.py    one open transaction
runs.py       posting runs as tables of their own, and the SQL that is fast on them
files.py      the file as a whole: copied, replaced
columns.py    whether columns hold what was declared
guarding.py   statements of the user's own
"""

from lshdb.storage.dialects.sqlite.database import SqliteDatabase

__all__ = ["SqliteDatabase"]
