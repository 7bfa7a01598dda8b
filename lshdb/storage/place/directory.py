"""The index directory: its files by name, and ``index.toml``, a copy of the parameters.

An index appears at once: it is made in a directory beside its place, synced, and renamed.
``index.toml`` is compared with the database at every open; the database is the truth.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lshdb.arguments import FILE_ENDINGS
from lshdb.errors import (
    FormatError,
    IndexNotFoundError,
    LshdbError,
    ParameterError,
    ReadOnlyError,
    system_hint,
)
from lshdb.files.descriptors import sync_directory, sync_file
from lshdb.files.own_files import open_file
from lshdb.files.rights import create_file
from lshdb.storage.dialects.database_urls import DatabasePlace

if TYPE_CHECKING:
    from lshdb.storage.dialects.base import Database

__all__ = ["Description", "IndexDirectory", "read_toml", "utf8_path"]


_SCHEMA_BYTES = 2**18
_OWN_TABLE = b"CREATE TABLE signature_block"
_LONGEST = 16 * 2**20
"""Bytes of ``index.toml``; stop tokens are the one parameter that may be long."""


def read_toml(text: str) -> dict[str, Any]:
    """Return the values in a text of TOML.

    Lines such as lshdb writes are taken apart here, in 20 us: importing ``tomllib`` takes 6 ms, a
    tenth of the time of a query. Anything else is left to it.

    Raises
    ------
    ValueError
        It is not valid TOML.
    """
    data = _plain_toml(text)
    if data is None:
        import tomllib

        data = tomllib.loads(text)
    return data


def _plain_toml(text: str) -> dict[str, Any] | None:
    """Return the same for a text of plain lines and at most one table; None for any other."""
    data: dict[str, Any] = {}
    table = data
    for line in text.split("\n"):
        if not line.isprintable():
            return None
        if not line or line.startswith("#"):
            continue
        name, equals, written = line.partition(" = ")
        if line == "[parameters]" and table is data and "parameters" not in data:
            table = data["parameters"] = {}
            continue
        value = _plain_value(written)
        is_plain = equals and name.isascii() and name.isidentifier()
        if not is_plain or value is None or name in table:
            return None
        table[name] = value
    return data


def _plain_value(written: str) -> str | int | float | bool | None:
    """Return a text without escapes, a number or a flag; None for anything else."""
    if len(written) > 1 and written[0] == written[-1] == '"':
        inside = written[1:-1]
        return None if '"' in inside or "\\" in inside else inside
    if written in ("true", "false"):
        return written == "true"
    whole, point, rest = written.partition(".")
    is_number = whole.isascii() and whole.isdecimal() and (whole == "0" or whole[0] != "0")
    if not is_number or len(written) > 18:
        return None
    if not point:
        return int(whole)
    return float(written) if rest.isascii() and rest.isdecimal() else None


@dataclass(frozen=True, slots=True)
class Description:
    """The contents of ``index.toml``.

    Attributes
    ----------
    place : DatabasePlace
        Where the database is.
    parameters : dict
        Name to value.
    """

    format: int
    uuid: str
    place: DatabasePlace
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class IndexDirectory:
    """Paths inside an index directory."""

    path: Path

    @property
    def description(self) -> Path:
        """``index.toml``."""
        return self.path / "index.toml"

    @property
    def next_description(self) -> Path:
        """``index.next.toml``: the next ``index.toml``, until its commit is done."""
        return self.path / "index.next.toml"

    @property
    def lock(self) -> Path:
        """The writer lock's file."""
        return self.path / "lock"

    def identity(self) -> tuple[int, ...]:
        """Return numbers that are others once something else lies at the path.

        They are those of the directory, and of ``index.toml`` with its time and size: a copy that
        is written over the files of another index leaves their numbers as they are.

        Raises
        ------
        IndexNotFoundError
            There is no index.
        LshdbError
            It cannot be looked at.
        """
        try:
            folder, file = os.stat(self.path), os.stat(self.description)
        except (FileNotFoundError, NotADirectoryError):
            raise self._absent() from None
        except OSError as error:
            raise _unreadable(self.path, error) from error
        return folder.st_dev, folder.st_ino, file.st_ino, file.st_mtime_ns, file.st_size

    def refuse_inside(self, path: Path) -> None:
        """Refuse a path inside the index for a new file or directory.

        Raises
        ------
        ParameterError
        """
        if self.path.resolve() in Path(os.path.abspath(path)).resolve().parents:
            raise ParameterError(
                f"{path} lies inside the index {self.path}, which holds only its own files",
                hint="give a path outside it",
            )

    def linked_files(self, database: Database) -> list[Path]:
        """Return the files that a writer changes in place, and that have other names too.

        Such names are hard links, as ``cp -al``, rsnapshot and programs that unite equal files make
        them: what is written to the index would change the other copy.
        """
        paths = [*self.path.glob("signatures*.npy"), *self.path.glob("vectors*.npy")]
        linked = []
        for path in (*database.files, *paths):
            with contextlib.suppress(OSError):
                if os.stat(path).st_nlink > 1:
                    linked.append(path)
        return sorted(linked)

    def refuse_linked(self, database: Database) -> None:
        """Raise a ReadOnlyError if there are such files; 50 us."""
        linked = self.linked_files(database)
        if linked:
            import shlex

            here = shlex.quote(str(self.path))
            way = f"cp -a {here} {here}.own && mv {here} {here}.linked && mv {here}.own {here}"
            if any(path.parent != self.path for path in linked):  # a database elsewhere
                files = [shlex.quote(str(path)) for path in linked]
                way = " && ".join(
                    f"cp -a {file} {file}.own && mv {file}.own {file}" for file in files
                )
            raise ReadOnlyError(
                f"the index {self.path} may not be changed: "
                f"{', '.join(path.name for path in linked)} "
                f"{'has' if len(linked) == 1 else 'have'} hard links elsewhere (cp -al), and that "
                "copy would change as well",
                hint=f"give this index files of its own: {way}; make later copies by lshdb copy",
            )

    def write_description(self, description: Description, *, is_next: bool = False) -> None:
        """Write ``index.toml``, or ``index.next.toml``, and sync it.

        Other parameters that need a commit are written in three steps: the next description beside
        the present one; the commit; the renaming (:meth:`settle_description`). A process that opens
        the index meanwhile takes the one of the two that agrees with the database.
        """
        lines = [
            "# An lshdb index. This is a copy of its parameters, for people and for comparison.",
            "# The database is the truth: an index whose copy was edited is refused.",
            f"format = {description.format}",
            f"uuid = {_toml(description.uuid)}",
        ]
        place = description.place
        if place.url is not None:
            lines.append(f"database = {_toml(place.url)}")
        if place.schema is not None:
            lines.append(f"schema = {_toml(place.schema)}")
        lines += ["", "[parameters]"]
        lines += [f"{name} = {_toml(value)}" for name, value in description.parameters.items()]
        path = self.next_description if is_next else self.description
        if is_next:  # a killed writer's; a link in its place is removed, not written through
            path.unlink(missing_ok=True)
        descriptor = create_file(path, model=self.description if is_next else None)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
            file.flush()
            sync_file(file.fileno())
        if is_next:
            sync_directory(self.path)

    def settle_description(self) -> None:
        """Replace ``index.toml`` by ``index.next.toml``."""
        os.replace(self.next_description, self.description)
        sync_directory(self.path)

    def read_next_description(self) -> Description | None:
        """Read ``index.next.toml``; return None if it is absent or incomplete."""
        try:
            return self._read(self.next_description)
        except LshdbError:
            return None

    def read_description(self) -> Description:
        """Read ``index.toml``.

        Raises
        ------
        IndexNotFoundError
            There is nothing, or something that is not an index.
        FormatError
            The file is not what lshdb writes.
        """
        utf8_path(self.path)
        return self._read(self.description)

    def read_place(self) -> DatabasePlace:
        """Return where the database is, by the readable part of ``index.toml``.

        Raises
        ------
        LshdbError
            The file is there and cannot be read.
        """
        lines: list[str] = []
        with contextlib.suppress(IndexNotFoundError):
            lines = self._content(self.description).decode("utf-8", "replace").splitlines()
        values: dict[str, Any] = {}
        for line in lines:
            if line.startswith(("database = ", "schema = ")):
                with contextlib.suppress(ValueError):
                    values |= read_toml(line)
        texts = {name: value for name, value in values.items() if isinstance(value, str)}
        return DatabasePlace(texts.get("database"), texts.get("schema"))

    def _content(self, path: Path) -> bytes:
        """Return the bytes of a description."""
        try:
            with open(path, "rb", opener=open_file) as file:
                # As much memory as is asked for is taken first.
                return file.read(min(os.fstat(file.fileno()).st_size, _LONGEST) + 1)
        except (FileNotFoundError, NotADirectoryError):
            raise self._absent() from None
        except OSError as error:
            raise _unreadable(path, error) from error

    def _read(self, path: Path) -> Description:
        content = self._content(path)
        try:
            if len(content) > _LONGEST:
                raise ValueError(f"it has more than {_LONGEST:,} bytes")
            data = read_toml(content.decode("utf-8"))
        except (ValueError, RecursionError) as error:  # from TOML, UTF-8 or very long numbers
            raise FormatError(
                f"{path} is not valid TOML: {error}",
                hint=self._remake,
            ) from error
        try:
            return Description(
                format=_typed(data, "format", int),
                uuid=_typed(data, "uuid", str),
                place=DatabasePlace(
                    None if "database" not in data else _typed(data, "database", str),
                    None if "schema" not in data else _typed(data, "schema", str),
                ),
                parameters=_typed(data, "parameters", dict),
            )
        except (KeyError, TypeError) as error:
            raise FormatError(
                f"{path} has a missing or bad value: {error}",
                hint=self._remake,
            ) from error

    def lacks_description(self) -> bool:
        """Return whether there is an index, by its other files, without ``index.toml``."""
        if os.path.lexists(self.description):
            return False
        patterns = self.path.glob("signatures*.npy"), self.path.glob("index.db")
        has_files = any(file.is_file() for names in patterns for file in names)
        return (has_files and self.lock.is_file()) or self._has_own_database()

    def _has_own_database(self) -> bool:
        """Return whether ``index.db`` begins as an index does: it may be all that a backup has."""
        database = self.path / "index.db"
        if not database.is_file():  # a pipe would never end
            return False
        try:
            with open(database, "rb") as file:
                beginning = file.read(_SCHEMA_BYTES)
        except OSError:
            return False
        return beginning.startswith(b"SQLite format 3\0") and _OWN_TABLE in beginning

    @property
    def _remake(self) -> str:
        """What to do without a sound ``index.toml``."""
        return (
            f"lshdb check --repair {self.path} writes it anew from the database; if that is not "
            'the file index.db, leave a line database = "URL" in it'
        )

    def _absent(self) -> IndexNotFoundError:
        """Return the error for a path without an index; it names a similar path."""
        path = self.path
        around = next(
            (parent for parent in path.parents if (parent / "index.toml").is_file()), None
        )
        if around is not None and path.exists():
            return IndexNotFoundError(
                f"{path} is a part of the index {around}", hint=f"give the index: {around}"
            )
        if path.is_file():
            return IndexNotFoundError(
                f"{path} is a file, and an index is a folder",
                hint=f"lshdb add {path.with_suffix('.lshdb').name} {path} makes one of this file",
            )
        if self.lacks_description():
            return IndexNotFoundError(f"the index {path} has lost index.toml", hint=self._remake)
        if path.exists() and not path.is_dir():
            return IndexNotFoundError(
                f"{path} is no index: it is a pipe, a socket or a device, and an index is a folder",
                hint="give the path of an index",
            )
        if path.exists():
            return IndexNotFoundError(
                f"{path} is no index: it is a folder without an index.toml",
                hint="give the path of an index; lshdb add "
                f"{path.resolve().name}.lshdb {path} makes one of the files in there",
            )
        meant = _index_like(path)
        hint = f"did you mean {meant}?" if meant else "check the path"
        is_file_name = path.suffix.lower().removeprefix(".") in FILE_ENDINGS
        if not meant and not is_file_name and set("*?[ -").isdisjoint(path.name):
            hint += f"; lshdb add {path} FILE makes one"
        return IndexNotFoundError(f"there is no index at {path}", hint=hint)


def _unreadable(path: Path, error: OSError) -> LshdbError:
    hint = system_hint(error) or "check the path, its permissions, and those of the folders above"
    return LshdbError(f"cannot read {path}: {error.strerror}", hint=hint)


def _index_like(path: Path) -> Path | None:
    """Return an index beside a path that is not there, whose name is nearly the same."""
    import difflib

    with contextlib.suppress(OSError):
        indexes = {
            index.stem: index for index in path.parent.iterdir() if (index / "index.toml").is_file()
        }
        for stem in difflib.get_close_matches(path.stem, indexes, n=1):
            return indexes[stem]
    return None


def utf8_path(path: Path) -> Path:
    """Return the path if a file can have that name, and it can be said: folders may have any.

    Raises
    ------
    ParameterError, LshdbError
    """
    if "\0" in str(path):
        raise ParameterError(f"the path {str(path)!r} holds a NUL; no file has one in its name")
    try:
        path.name.encode()
    except UnicodeEncodeError:
        name = str(path).encode(errors="backslashreplace").decode()
        raise LshdbError(
            f"the path {name} is not valid UTF-8", hint="give the index another name"
        ) from None
    return path


def _typed(data: dict[str, Any], name: str, expected: type) -> Any:
    """Return a value of the expected type; no message shows it, as it may hold a password."""
    value = data[name]
    if type(value) is not expected:
        raise TypeError(f"{name}: it is a {type(value).__name__} (expected {expected.__name__})")
    return value


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    escaped = "".join(
        f"\\u{ord(c):04X}" if ord(c) < 32 or ord(c) == 127 else f"\\{c}" if c in '\\"' else c
        for c in str(value)
    )
    return f'"{escaped}"'
