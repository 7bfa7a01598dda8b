"""What newcomers type, and what they are told: ``python -m tests.cli.mistakes`` writes the table.

``mistakes.txt`` has each command, its exit code, and what it writes. ``test_mistakes.py`` compares.
After a change of a message write the table again, and read by eye what has changed: does it say
what happened, where, what was expected, and what to do next?
"""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click.testing
import numpy as np

from lshdb import Index
from lshdb.cli._group import cli

TABLE = Path(__file__).with_name("mistakes.txt")

COMMANDS = """
lshdb
lshdb dedupe news.lshdb
lshdb ad news.lshdb news.jsonl
lshdb add
lshdb add news.lshdb
lshdb add new.lshdb missing.jsonl
lshdb add new.lshdb '*.missing'
lshdb add new.lshdb no-id.jsonl
lshdb add new.lshdb no-text.jsonl
lshdb add new.lshdb other-names.csv
lshdb add new.lshdb other-names.csv --key-field number
lshdb add new.lshdb semicolons.csv
lshdb add new.lshdb latin1.csv
lshdb add new.lshdb broken.jsonl
lshdb add new.lshdb pretty.json
lshdb add new.lshdb array.jsonl
lshdb add new.lshdb twice.jsonl
lshdb add new.lshdb empty.jsonl
lshdb add new.lshdb wrong-name.jsonl
lshdb add new.lshdb picture.png
lshdb add new.lshdb page.html
lshdb add new.lshdb letter.docx
lshdb add new.lshdb vectors.npy
lshdb add new.lshdb vectors.npy --metric cosine --dim 7
lshdb add new.lshdb news.jsonl --threshold 80
lshdb add new.lshdb news.jsonl --threshold 0
lshdb add new.lshdb news.jsonl --threshold 0,8
lshdb pairs news.lshdb --below 0.1
lshdb query news.lshdb --text council --below 0.9 --verify none
lshdb query news.lshdb --text council --vote topic
lshdb add new.lshdb news.jsonl --recall 1.5
lshdb add new.lshdb news.jsonl --unit words
lshdb add new.lshdb news.jsonl --metric euclidean
lshdb add new.lshdb news.jsonl --treshold 0.8
lshdb add new.lshdb news.jsonl --bands 20
lshdb add new.lshdb news.jsonl --metric l2
lshdb add new.lshdb news.jsonl --tokenizer bert
lshdb add new.lshdb news.jsonl --stop-tokens missing.txt
lshdb add new.lshdb news.jsonl --key-field id --key-field text
lshdb add news.lshdb news.jsonl --threshold 0.5
lshdb add news.lshdb news.jsonl --unit char
lshdb add news.lshdb news.lshdb
lshdb add news.jsonl news.lshdb
lshdb add folder news.jsonl
lshdb add news.lshdb news.jsonl --night 'last night'
lshdb query missing.lshdb --text words
lshdb query news.lshdb
lshdb query news.lshdb "the mayor opened the new bridge"
lshdb query news.lshdb --key nobody
lshdb query news.lshdb --text "too short"
lshdb query news.lshdb --text ""
lshdb query news.lshdb --text "nothing in the index is like this text of some length" --top 0
lshdb query news.lshdb --text "nothing in the index is like this text of some length"
lshdb query empty.lshdb --text "the index is empty and so nothing can be found in it"
lshdb query news.lshdb --vector '[1, 2'
lshdb query news.lshdb --text "the mayor opened the new bridge" --recall 1 --verify signature
lshdb query news.lshdb --text "the mayor opened the new bridge" --measure containment --recall 0.9
lshdb pairs news.lshdb --measure containment --max-bucket 5
lshdb pairs news.lshdb --measure containment --verify none
lshdb neighbors news.lshdb --recall 2
lshdb neighbors news.lshdb --recall 1 --no-update
lshdb pairs
lshdb pairs news.jsonl
lshdb pairs news.jsonl --since last
lshdb pairs news.jsonl missing.jsonl
lshdb pairs news.jsonl news.lshdb
lshdb pairs news.lshdb --metric cosine
lshdb pairs vectors.npy
lshdb pairs no-text.jsonl
lshdb pairs semicolons.csv
lshdb clusters empty.jsonl
lshdb clusters news.jsonl --no-update
lshdb pairs news.lshdb --format xml
lshdb pairs news.lshdb --since yesterday
lshdb pairs news.lshdb --since @press
lshdb pairs news.lshdb --since 99
lshdb pairs news.lshdb --advance
lshdb pairs news.lshdb --verify yes
lshdb clusters news.lshdb --min-size 1
lshdb dedup news.lshdb --keep best
lshdb dedup news.lshdb --filter missing.jsonl
lshdb dedup news.lshdb --filter other-names.csv
lshdb dedup news.lshdb --keep field:date
lshdb show news.lshdb nobody
lshdb remove news.lshdb nobody
lshdb explain news.lshdb mon-1
lshdb explain news.lshdb mon-1 nobody
lshdb sql news.lshdb "SELECT * FROM documents"
lshdb sql news.lshdb "SELECT keys FROM document"
lshdb sql news.lshdb "DELETE FROM document"
lshdb sql news.lshdb "SELEC 1"
lshdb expire news.lshdb --older-than 90
lshdb reband news.lshdb
lshdb reband news.lshdb --threshold 2
lshdb reindex news.lshdb news.lshdb
lshdb copy news.lshdb news.lshdb
lshdb merge news.lshdb other.lshdb
lshdb import folder new.lshdb
lshdb export news.lshdb -o folder
lshdb init news.lshdb
lshdb init missing/new.lshdb
lshdb init new.lshdb --database mysql://host/name
lshdb init new.lshdb --database postgresql+psycopg://user:secret@host/name
lshdb cursors news.lshdb --set 1
lshdb guide bridge
lshdb check missing.lshdb
lshdb upgrade news.lshdb --fast
lshdb dedup folder --text-field content
lshdb dedup news.jsonl --text-field content
lshdb dedup 'folder/*.jsonl' --text-field content
lshdb dedup missing.jsonl
lshdb dedup news.jsonl clean.jsonl
lshdb dedup news.lshdb news.jsonl
lshdb dedup news.lshdb -o decisions.tsv
lshdb dedup -
lshdb dedup news.jsonl -o clean.csv
lshdb dedup folder news.jsonl -o clean.parquet
lshdb stats news.lshdb/index.db
lshdb stats news
lshdb pairs nwes.lshdb
lshdb pairs folder
lshdb add news.jsonl
lshdb query "some words" news.lshdb
lshdb query news.lshdb some words
lshdb query news --text
lshdb query news.lshdb --vector 1,2
lshdb pairs news.lshdb --threshold 80%
lshdb pairs news.lshdb 0.8
lshdb pairs news.lshdb news.jsonl
lshdb pairs news.lshdb -threshold 0.8
lshdb pairs news.lshdb --limit ten
lshdb pairs news.lshdb --limit 0
lshdb pairs news.lshdb -o pairs.xlsx
lshdb pairs news.lshdb -o folder
lshdb --threshold 0.8 pairs news.lshdb
lshdb news.lshdb pairs
lshdb news.jsonl
lshdb search news.lshdb words
lshdb delete news.lshdb mon-1
lshdb help add
lshdb add news.lshdb news.jsonl --night ''
lshdb pairs news.lshdb --ignore-same-path
lshdb clusters news.lshdb --no-update
lshdb clusters news.lshdb
lshdb clusters news.lshdb --no-update --threshold 0.3
lshdb join news.lshdb news.lshdb
lshdb export news.lshdb folder
lshdb export news.lshdb -o news.parquet
lshdb plot news.lshdb s-curve -o x.svg
lshdb report news.lshdb
lshdb report news.lshdb -o report.pdf
lshdb remove news.lshdb
lshdb serve news.lshdb --port 99999
lshdb demo news.lshdb
lshdb init :memory:
lshdb init postgresql://host/name
lshdb stats ""
lshdb add new.lshdb ""
lshdb add new.lshdb News.json
lshdb add new.lshdb news.jsonl --include ""
lshdb serve news.lshdb --token-file missing
lshdb stats pipe
lshdb init /
lshdb pairs news.lshdb --memory 4GB
lshdb import news.lshdb new.lshdb
lshdb dedup news.jsonl -o news.lshdb
lshdb cursors news.lshdb "the press" --set 1
lshdb show news.lshdb
lshdb merge news.lshdb
lshdb tune news.lshdb --labels missing.csv
lshdb passages news.lshdb
"""


def make_files(folder: Path) -> None:
    """Make the files that the commands name."""
    os.mkfifo(folder / "pipe")
    news = [
        '{"id": "mon-1", "text": "the mayor opened the new bridge on Monday before a large crowd"}',
        '{"id": "mon-2", "text": "the mayor opened the new bridge on Monday before a small crowd"}',
    ]
    texts = {
        "news.jsonl": "\n".join(news) + "\n",
        "no-id.jsonl": '{"title": "one", "text": "some words"}\n' * 3,
        "no-text.jsonl": '{"id": "a", "body": "some words"}\n' * 2,
        "other-names.csv": "number,words\n1,some words\n2,more words\n",
        "semicolons.csv": "id;text\n1;some words\n",
        "broken.jsonl": '{"id": "a", "text": "some words"}\n{"id": "b", "text": \nnot json\n',
        "pretty.json": '{\n  "id": "a",\n  "text": "some words"\n}\n',
        "array.jsonl": '[\n  {"id": "a", "text": "some words of it"},\n  {"id": "b"}\n]\n',
        "twice.jsonl": news[0] + "\n" + news[0].replace("large", "huge") + "\n",
        "empty.jsonl": "",
        "page.html": "<!doctype html><html><body>some words</body></html>",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "latin1.csv").write_bytes("id,text\n1,Grüße an alle\n".encode("latin-1"))
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))
    (folder / "letter.docx").write_bytes(b"PK\x03\x04" + bytes(60))
    (folder / "wrong-name.jsonl").write_bytes(gzip.compress(news[0].encode(), mtime=0))
    (folder / "folder").mkdir()
    (folder / "folder" / "file.txt").write_text("a file of somebody else")
    np.save(folder / "vectors.npy", np.eye(5, dtype=np.float32))
    with Index.create(folder / "news.lshdb") as index:
        index.add([("mon-1", "the mayor opened the new bridge on Monday before a large crowd")])
    Index.create(folder / "empty.lshdb").close()
    Index.create(folder / "other.lshdb", unit="char").close()


def told(folder: Path) -> str:
    """Run all commands in a folder, and return the table."""
    blocks = []
    with contextlib.chdir(folder):
        for line in COMMANDS.strip().splitlines():
            shutil.rmtree("new.lshdb", ignore_errors=True)
            result = click.testing.CliRunner().invoke(
                cli, shlex.split(line)[1:], catch_exceptions=False, prog_name="lshdb"
            )
            shown = "".join(f"  {each}\n" for each in _cut(result.stdout, result.stderr))
            blocks.append(f"$ {line}\n[{result.exit_code}]\n{shown}")
    text = "\n".join(blocks).replace(str(folder) + os.sep, "")
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ ", "", text)
    return re.sub(r"[\d,]+ documents?/s", "N documents/s", text)


def _cut(stdout: str, stderr: str) -> Iterator[str]:
    """Yield what was written; of a long answer only the first lines."""
    for text in (stdout, stderr):
        lines = text.splitlines()
        yield from lines[:12]
        if len(lines) > 12:
            yield f"... {len(lines) - 12} lines more"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        make_files(Path(name).resolve())
        TABLE.write_text(told(Path(name).resolve()))
