"""``lshdb reindex``: make another index from the stored texts, with other parameters."""

from __future__ import annotations

from typing import Any

import click

from lshdb import Index
from lshdb.cli._command import Argument, complete_folders
from lshdb.cli._creation_options import creation_options_as_before, given_parameters
from lshdb.cli._documents_in import summary
from lshdb.cli._long_work import TaskProgress
from lshdb.cli._options import Command, index_argument, workers_option
from lshdb.cli._output import note
from lshdb.cli._words import described

__all__ = ["command"]


@click.command(
    "reindex",
    cls=Command,
    short="threshold recall metric unit k num-perm stop-words passages database workers",
)
@index_argument
@click.argument(
    "path",
    metavar="NEW",
    cls=Argument,
    missing="the folder of the new index",
    shell_complete=complete_folders,
)
@workers_option
@creation_options_as_before
def command(index_path: str, path: str, *, workers: int | None, **options: Any) -> None:
    """Make the index NEW from the texts stored in INDEX, with other parameters.

    What you do not give is as in INDEX; the database is in NEW unless you give --database. With
    --threshold, --recall, --bands and --rows, or --num-perm, bands and rows are chosen again, for
    the recall of INDEX unless you give another. For vectors and bits, --num-perm and --width are
    chosen with them, for a sample of what is stored. Another --unit brings its own defaults for --k
    and for letter case.

    Keys, sources and the times at which documents first and last came in are kept. NEW appears when
    it is complete; if the command is killed before, NEW does not exist. INDEX is not changed, and
    others may write to it meanwhile.

    \b
    lshdb reindex news.lshdb news-char.lshdb --unit char --threshold 0.6
    lshdb reindex news.lshdb precise.lshdb --num-perm 256
    lshdb reindex books.lshdb passages.lshdb --passages 50:25
    """
    with Index.open(index_path) as index, TaskProgress("reindexing"):
        result = index.reindex(path, workers=workers, **given_parameters(options))
    with Index.open(path) as new:
        note(f"made the index {path}: {described(new.params)}")
    note(summary(result))
