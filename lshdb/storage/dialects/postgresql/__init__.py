"""Everything that is Postgres's own: connections, transactions, and the SQL it is fast with.

    database.py   where the schema is, and the connections to it
    making.py     making the schema, and removing it again
    locking.py    one writer at a time
    session.py    one open transaction
    runs.py       posting runs as partitions of one table
    retiring.py   merged runs, dropped when nobody can see them any more
    arrays.py     arrays of whole numbers to and from the server without a Python object each
    guarding.py   statements of the user's own; placing.py their parameters, values.py results
    inspecting.py what can be found wrong in a schema
    saying.py     the server's errors, for people

Needs psycopg, of the extra ``postgres``.
"""

from lshdb.storage.dialects.postgresql.database import PostgresDatabase

__all__ = ["PostgresDatabase"]
