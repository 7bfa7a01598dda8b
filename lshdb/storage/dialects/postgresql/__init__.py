"""Everything specific to Postgres: connections, transactions, and the SQL it is fast with.

    postgres_database.py   where the schema is, the connections to it, its errors in plain words
    schema_place.py        making the schema, and removing it again
    advisory_lock.py       one writer at a time
    postgres_session.py    one open transaction; what can be found wrong in a schema
    postgres_runs.py       posting runs as partitions of one table; dropping merged ones
    number_arrays.py       arrays of whole numbers to and from the server without an object each
    postgres_guard.py      statements of the user, and their results
    placeholders.py        parameters of such statements

Needs psycopg, from the extra ``postgres``.
"""

from lshdb.storage.dialects.postgresql.postgres_database import PostgresDatabase

__all__ = ["PostgresDatabase"]
