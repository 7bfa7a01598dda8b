"""Everything specific to SQLite: connections, transactions, and the SQL that it is fast with.

sqlite_database.py   where the file is; what SQLite can do
connections.py       opening connections, and their settings
trust.py             whether a schema is what our migrations make; frozen_schemas.py lists those
sqlite_session.py    one open transaction
sqlite_runs.py       posting runs as separate tables, and the SQL that is fast on them
sqlite_guard.py      statements of the user
database_files.py    the file as a whole: copied, replaced
"""

from lshdb.storage.dialects.sqlite.sqlite_database import SqliteDatabase

__all__ = ["SqliteDatabase"]
