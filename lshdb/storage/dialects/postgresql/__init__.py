"""Everything specific to Postgres: connections, transactions, and the SQL it is fast with.

    postgres_database.py   where the schema is, the connections to it, its errors in plain words
    schema_place.py        making the schema, removing it again, and the lock of its one writer
    server_connection.py   settings of a session, or of each transaction behind a pooler
    postgres_session.py    one open transaction; what can be found wrong in a schema
    postgres_arrays.py     whole numbers to and from the server, as arrays
    postgres_guard.py      statements of the user, their parameters and their results

Needs psycopg, from the extra ``postgres``.
"""

from lshdb.storage.dialects.postgresql.postgres_database import PostgresDatabase

__all__ = ["PostgresDatabase"]
