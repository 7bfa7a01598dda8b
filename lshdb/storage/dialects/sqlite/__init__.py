"""Everything specific to SQLite: connections, transactions, and the SQL that it is fast with.

sqlite_database.py   where the file is; what SQLite can do
connections.py       opening connections, and their settings; the file as a whole: copied, replaced
trust.py             whether a schema is what our migrations make
new_schema.py        the statements that make a new database
sqlite_session.py    one open transaction
sqlite_guard.py      statements of the user
"""

from lshdb.storage.dialects.sqlite.sqlite_database import SqliteDatabase

__all__ = ["SqliteDatabase"]
