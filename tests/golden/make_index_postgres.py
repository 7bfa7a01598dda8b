"""Make two tiny indexes in Postgres: ``python -m tests.golden.make_index_postgres``.

Run once for every schema, as ``make_index.py`` says. An archive has the files of each index, and
its tables as the statements that make them, in ``index.sql``. They name no schema, and
``index.toml`` names neither that nor a server: whoever unpacks them says where they are to be.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from lshdb.storage.tables.migrations import SCHEMA_REVISION
from tests.golden import make_index, make_index_families
from tests.postgres import PostgresServer, PostgresUrl, programs

FOLDER = Path(__file__).with_name("indexes") / "postgres"
NAMES = {"jaccard": "golden.lshdb", "cosine": "cosine.lshdb"}


def build(path: Path, url: PostgresUrl, schema: str) -> None:
    """An index of texts, or of vectors, beside its tables."""
    place = {"database": url.lshdb, "schema": schema}
    if path.name == NAMES["jaccard"]:
        make_index.build(path, **place)
    else:
        make_index_families.build(path, path.stem, **place)
    (path / "index.sql").write_text(statements(url, schema), "utf-8")
    description = path / "index.toml"
    text = description.read_text("utf-8").replace(url.lshdb, "DATABASE")
    description.write_text(text.replace(schema, "SCHEMA"), "utf-8")


def statements(url: PostgresUrl, schema: str) -> str:
    """What makes the tables and views of a schema, and fills them."""
    command = [programs() / "pg_dump", "--inserts", "--no-owner", "--no-privileges"]
    dumped = subprocess.run(
        [*command, f"--schema={schema}", url.psycopg], check=True, capture_output=True, text=True
    ).stdout
    dumped = dumped.replace(f"{schema}.", "")
    lines = [
        line
        for line in dumped.splitlines()
        if line and not re.match(r"--|\\|SET |SELECT pg_catalog|(CREATE|COMMENT ON) SCHEMA", line)
    ]
    return "\n".join([*lines, ""])


def main() -> None:
    """Build the indexes and pack them."""
    target = FOLDER / f"{SCHEMA_REVISION}.tar.gz"
    if target.exists():
        sys.exit(f"{target} is there already, and is kept for ever")
    FOLDER.mkdir(exist_ok=True)
    server = PostgresServer()
    try:
        with tempfile.TemporaryDirectory() as temporary, tarfile.open(target, "x:gz") as archive:
            for number, name in enumerate(NAMES.values()):
                path = Path(temporary) / name
                build(path, server.url, f"golden_schema_{number}")
                for file in sorted(path.iterdir()):
                    archive.add(file, f"{name}/{file.name}")
    finally:
        server.remove()
    print(target)


if __name__ == "__main__":
    main()
