"""``lshdb demo``: index input that every machine has, the Python standard library.

Its modules are not near-duplicates by design, but some have become so: the tables in ``encodings``
were generated from one another's templates, and tests were copied from tests. Exact copies are
counted and not listed: most are empty or have three lines, and need no index to be found.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from lshdb import Document, InputError, Pair, Rejected
from lshdb.cli._cells import harmless
from lshdb.cli._documents_in import add_watched, create_and_say, open_if_there, summary
from lshdb.cli._long_work import AddProgress
from lshdb.cli._options import Command
from lshdb.cli._output import Column, flush_output, print_listing, say
from lshdb.cli._words import counted
from lshdb.cli.pairs import COLUMNS
from lshdb.documents.blocks import DocumentStream, in_blocks
from lshdb.documents.io.streams import Progress

__all__ = ["command"]

_SOURCE = "the standard library of Python"
_PAIRS_SHOWN = 15
_CLUSTERS_SHOWN = 10
_MEMBERS_SHOWN = 3
_SKIPPED = frozenset({"__pycache__", "site-packages", "dist-packages"})


@click.command("demo", cls=Command)
@click.argument("index_path", metavar="[PATH]", default="./demo.lshdb")
@click.pass_context
def command(ctx: click.Context, index_path: str) -> None:
    """Index the source of Python's standard library and show its near-duplicates.

    The index is made at PATH, by default ./demo.lshdb. If you run it again, it adds the same files
    again, which changes nothing.

    \b
    lshdb demo
    lshdb demo python.lshdb
    lshdb demo --quiet
    """
    library = Path(sysconfig.get_paths()["stdlib"])
    files = list(_source_files(library))
    if not files:
        raise InputError(
            f"the standard library at {library} has no source files",
            hint="use a Python that is installed with its source files",
        )
    progress = AddProgress()
    n_read = Progress(None, sum(file.stat().st_size for file in files))
    blocks = in_blocks(_documents(library, files, n_read), is_at_hand=True)
    documents = DocumentStream(blocks, is_at_hand=True, progress=n_read)
    with open_if_there(index_path) or create_and_say(index_path) as index:
        if any(not batch.source.startswith(_SOURCE) for batch in index.batches()):
            raise click.UsageError(
                f"{index_path} holds other documents, and the demo would add Python's own files to "
                "it: name another PATH",
                ctx,
            )
        result = add_watched(
            index,
            documents,
            progress,
            source=f"{_SOURCE} {sys.version.split()[0]}"[:200],
            lock_timeout=60.0,
            report_rejected=False,
        )
        say(f"{len(files):,} files of {harmless(str(library))}")
        say(summary(result))
        if result.rejected:
            say(f"{counted(result.rejected, 'file is', 'files are')} not UTF-8 and left out")
        pairs = list(index.pairs())
        _show_pairs(pairs, index.params.threshold)
        _show_clusters([cluster.keys for cluster in index.clusters()])
    _show_next(
        _program(ctx), index_path, _example(pairs) or files[0].relative_to(library).as_posix()
    )


def _source_files(library: Path) -> Iterator[Path]:
    """Yield the ``.py`` files below a folder, sorted by name."""
    for folder, subfolders, names in os.walk(library):
        subfolders[:] = sorted(set(subfolders) - _SKIPPED)
        yield from (Path(folder, name) for name in sorted(names) if name.endswith(".py"))


def _documents(library: Path, files: list[Path], n_read: Progress) -> Iterator[Document | Rejected]:
    """Yield the files as documents; the keys are paths below the library."""
    for file in files:
        try:
            content = file.read_bytes()
            n_read.begin(len(content))
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            yield Rejected(str(file), "not valid UTF-8")
        except OSError as error:
            yield Rejected(str(file), f"cannot be read: {error.strerror}")
        else:
            yield Document(file.relative_to(library).as_posix(), text, str(file))
            n_read.read(len(content))
            n_read.end()


def _show_pairs(pairs: list[Pair], threshold: float) -> None:
    alike = sorted(
        (pair for pair in pairs if pair.similarity < 1.0),
        key=lambda pair: (-pair.similarity, pair.key1, pair.key2),
    )
    copies = counted(
        len(pairs) - len(alike), "of them is an exact copy", "of them are exact copies"
    )
    say()
    say(
        f"{counted(len(pairs), 'pair of files is', 'pairs of files are')} near-duplicate, "
        f"at similarity {threshold:g} or more; {copies}"
    )
    if not alike:
        return
    say(f"the {min(len(alike), _PAIRS_SHOWN)} most similar of the others:")
    say()
    most = alike[:_PAIRS_SHOWN]
    rows = (tuple(getattr(pair, column.name) for column in COLUMNS) for pair in most)
    print_listing(COLUMNS, rows, "table")


def _show_clusters(clusters: Sequence[Sequence[str]]) -> None:
    if not clusters:
        return
    say()
    shown = min(len(clusters), _CLUSTERS_SHOWN)
    say(f"they form {counted(len(clusters), 'cluster')}; the {shown} largest:")
    say()
    rows = (
        (
            len(members),
            ", ".join(members[:_MEMBERS_SHOWN])
            + (f" and {len(members) - _MEMBERS_SHOWN} more" * (len(members) > _MEMBERS_SHOWN)),
        )
        for members in clusters[:_CLUSTERS_SHOWN]
    )
    print_listing((Column("size", "number"), Column("members", "prose")), rows, "table")


def _show_next(program: str, index_path: str, key: str) -> None:
    index, key = shlex.quote(index_path), shlex.quote(key)
    say()
    say(f"the index is {harmless(os.path.abspath(index_path))}")
    say("commands to try next:")
    say()
    say(f"  {program} query {index} --key {key} --threshold 0.5")
    say(f"  {program} pairs {index} --threshold 0.9 --format csv")
    say(f'  {program} sql {index} "SELECT band, size FROM bucket ORDER BY size DESC LIMIT 10"')
    say(f"  {program} report {index} --output report.html")
    say(f"  {program} serve {index}")
    flush_output()


def _example(pairs: list[Pair]) -> str | None:
    """Return the key with the most near-duplicates, copies not counted."""
    counts: dict[str, int] = {}
    for pair in pairs:
        if pair.similarity < 1.0:
            for key in (pair.key1, pair.key2):
                counts[key] = counts.get(key, 0) + 1
    return min(counts, key=lambda key: (-counts[key], key), default=None)


def _program(ctx: click.Context) -> str:
    """Return the command that calls this program again from the same folder."""
    name = ctx.find_root().info_name or "lshdb"
    if name.startswith("python "):
        python = shutil.which("python")
        beside = python is not None and os.path.dirname(python) == os.path.dirname(sys.executable)
        return name if beside else name.replace("python", shlex.quote(sys.executable), 1)
    if name == "lshdb" and shutil.which("lshdb") is None:
        return shlex.quote(os.path.abspath(sys.argv[0]))
    return name
