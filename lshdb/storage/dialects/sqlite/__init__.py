"""Everything that is SQLite's own: connections, transactions, and the SQL it needs in its own form.

sqlite_database.py   where the file is; what SQLite can do
connections.py       opening connections, and their settings
trust.py             whether a schema is what our migrations make; frozen_schemas.py has those
sqlite_session.py    one open transaction
sqlite_runs.py       posting runs as tables of their own, and the SQL that is fast on them
sqlite_guard.py      statements of the user's own
database_files.py    the file as a whole: copied, replaced
"""

from lshdb.storage.dialects.sqlite.sqlite_database import SqliteDatabase

__all__ = ["SqliteDatabase"]
