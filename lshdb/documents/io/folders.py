"""Walk a folder: which files are found, which are left out, and whether it holds texts or records.

Decided:

- Left out, and counted by reason: names that begin with a dot (unless ``hidden``), what the
  folder's ``.gitignore`` files name (unless told otherwise), what ``exclude`` matches and
  ``include`` does not, indexes, sockets, pipes and devices. Folders of version control and of
  tools (``SKIPPED_FOLDERS``) are left out whatever is asked. A folder that is left out counts once.
- A symbolic link to a folder is left out, so there are no loops. A link to a file is followed
  unless that file is found in the same tree, too: it would only be a copy.
- ``.gitignore`` files mean what they mean to git, nested ones and negations included, also those
  between the folder and the top of its repository. A folder that you name is read even if it is
  ignored itself. Not read: ``.git/info/exclude`` and the user's own list.
- A folder whose files are mostly plain texts, judged by their names, holds texts: every file is
  one text. In any other folder the ending of each file decides. So the table in a source tree is a
  text, and shards beside a README are records. Names that any folder may have (``README``) and
  binary files do not count, nor do names without an ending where there is Parquet or Arrow.

Limits: the list of all files is held. Names decide what a folder holds; nothing is opened.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from lshdb.arguments import printable
from lshdb.documents.document import system_reason
from lshdb.documents.registry import BY_COMPRESSION, BY_EXTENSION, FORMATS, by_name
from lshdb.errors import ParameterError

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

__all__ = [
    "SKIPPED_FOLDERS",
    "Candidate",
    "FoundFile",
    "Selection",
    "WalkCounts",
    "WalkOptions",
    "candidate",
    "ending_of",
    "format_of_name",
    "holds_texts",
    "is_index",
    "kind_of_name",
    "listing",
    "walk",
    "without_copies",
]

SKIPPED_FOLDERS = frozenset(
    {".git", ".hg", ".svn", ".bzr", "_darcs", "CVS", "__pycache__", "node_modules"}
)
"""Names of folders that hold no documents of the user's, whatever the options say."""

# Compiled by ``re`` when a folder is walked: a query walks none, and begins 5 ms sooner.
_NEUTRAL = (
    r"(?i:readme|licen[cs]e(?:-\w+)?|copying|copyright|notice|changelog|contributing|citation"
    r"|_success)(?:\.[\w-]+)*"
)
_BINARY = (
    r"\.(?:7z|a|aac|ai|apk|arrow|avi|avif|bin|bmp|bz2|class|dat|db|dll|dmg|docx?|dylib|eot|epub|exe"
    r"|feather|flac|gif|h5|hdf5|heic|ico|idx|iso|jar|jpe?g|lib|lz4|m4a|mkv|mov|mp3|mp4|mpe?g|o|obj"
    r"|odp|ods|odt|ogg|onnx|orc|otf|pack|pdf|pickle|pkl|png|pptx?|pth?|pyc|pyd|rar|safetensors|so"
    r"|sqlite3?|tar|tgz|tiff?|ttf|war|wasm|wav|webm|webp|whl|wmv|woff2?|xlsx?|xz|zip)"
)
"""Endings that say nothing about whether a folder holds texts; whether a file is binary, its own
beginning shows."""
_SHOWN = 4


@dataclass(frozen=True, slots=True)
class WalkOptions:
    """The options of a walk: which files it takes.

    Attributes
    ----------
    hidden : bool
        Take names that begin with a dot.
    gitignore : bool
        Leave out what ``.gitignore`` files name.
    include, exclude : sequence of str
        Patterns as in a ``.gitignore`` file, relative to the folder. With ``include``, only files
        that one of them matches are taken.
    leave_out : sequence of path-like
        Files and folders that are never taken: the program's own.
    """

    hidden: bool = False
    gitignore: bool = True
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    leave_out: Sequence[str | os.PathLike[str]] = ()

    def check(self) -> None:
        """Raise ParameterError unless patterns are a list of texts.

        Raises
        ------
        ParameterError
        """
        for name in ("include", "exclude", "leave_out"):
            value = getattr(self, name)
            if isinstance(value, str | bytes | os.PathLike):
                raise ParameterError(
                    f"{name} is one {type(value).__name__}, expected a sequence",
                    hint="put it into a list",
                )
        for name in ("include", "exclude"):
            _spec(name, getattr(self, name))


@dataclass(slots=True)
class WalkCounts:
    """What became of the files in folders, for :func:`lshdb.read_documents` to fill in.

    Attributes
    ----------
    left_out : Counter of str
        How many files and folders were left out, by reason: ``hidden``, ``ignored`` (by
        ``.gitignore``), ``excluded`` (by ``include`` and ``exclude``), ``tools`` (folders such as
        ``.git`` and ``node_modules``), ``links``, ``special`` (pipes, sockets and devices),
        ``indexes``, ``markers`` (of jobs, such as ``_SUCCESS``), ``stale`` (files that are in a
        table's folder and not in the table), ``empty`` (files of records), ``binary`` and ``other``
        (of formats that are not read). The last three are known only when their turn comes.
    endings : dict of str to Counter of str
        For ``binary`` and ``other``: how many files have which ending.
    notes : list of str
        What was decided about folders that hold texts as well as records.
    """

    left_out: Counter[str] = field(default_factory=Counter)
    endings: dict[str, Counter[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def leave(self, reason: str, path: str = "") -> None:
        """Count one file; with its path, its ending is counted, too."""
        self.left_out[reason] += 1
        if path:
            self.endings.setdefault(reason, Counter())[ending_of(path)] += 1

    def advice(self) -> str:
        """Return a hint: options that read the files left out; empty if none does."""
        said = {
            "ignored": "--no-gitignore also reads what .gitignore names",
            "hidden": "--hidden also reads names that begin with a dot",
            "excluded": "check --include and --exclude",
            "other": "--input says what they are",
            "markers": "name such a file to read it",
        }
        return ", ".join(words for reason, words in said.items() if self.left_out[reason])

    def __str__(self) -> str:
        """Return the counts of files left out, in one line; empty if none was."""
        said = []
        for reason, (singular, several) in _WORDS.items():
            count = self.left_out[reason]
            if count:
                shown = _most(self.endings.get(reason, Counter()))
                words = singular if count == 1 else several
                said.append(f"{count:,} {words}" + (f" ({shown})" if shown else ""))
        return ", ".join(said)


_WORDS = {
    "hidden": ("hidden", "hidden"),
    "ignored": ("ignored by .gitignore", "ignored by .gitignore"),
    "excluded": ("by --include or --exclude", "by --include or --exclude"),
    "tools": ("folder of tools (such as .git)", "folders of tools (such as .git)"),
    "links": ("link", "links"),
    "markers": ("marker of a job (such as _SUCCESS)", "markers of jobs (such as _SUCCESS)"),
    "stale": (
        "file that is not in its Delta table, by the log",
        "files that are not in their Delta table, by the log",
    ),
    "empty": ("empty", "empty"),
    "binary": ("binary", "binary"),
    "other": ("of other formats, see --input", "of other formats, see --input"),
    "indexes": ("index", "indexes"),
    "special": ("pipe, socket or device", "pipes, sockets or devices"),
}
"""Words for one and for several."""


class FoundFile(NamedTuple):
    """A file that was found.

    Attributes
    ----------
    path : str
        Begins with the folder as it was given.
    size : int
        Bytes on disk.
    problem : str or None
        Why it cannot be read.
    """

    path: str
    size: int = 0
    problem: str | None = None


def listing(path: str) -> list[os.DirEntry[str]]:
    """Return the entries of a folder in the order of their names.

    Raises
    ------
    OSError
    """
    with os.scandir(path) as entries:
        return sorted(entries, key=lambda entry: entry.name)


def is_index(entries: list[os.DirEntry[str]]) -> bool:
    """Return whether a folder is an index of lshdb, judged by its files."""
    return {"index.toml", "lock", "signatures.npy"} <= {entry.name for entry in entries}


class Candidate(NamedTuple):
    """A file, what identifies it on this machine, and whether its name is a link to it."""

    file: FoundFile
    identity: tuple[int, int] | None = None
    is_link: bool = False


def candidate(path: str) -> Candidate | None:
    """Return a file or a link to one; None for a folder, a pipe, a socket or a device."""
    is_link = os.path.islink(path)
    try:
        status = os.stat(path)
    except OSError as error:
        unreadable = FoundFile(path, problem=f"cannot be read: {system_reason(error)}")
        return Candidate(unreadable, is_link=is_link)
    if not stat.S_ISREG(status.st_mode):
        return None
    return Candidate(FoundFile(path, status.st_size), (status.st_dev, status.st_ino), is_link)


# Walking


class _Rule(NamedTuple):
    """One line of a ``.gitignore`` file."""

    regex: re.Pattern[str]
    ignores: bool
    of_folders: bool


class _Ignore(NamedTuple):
    """The rules of one ``.gitignore`` file, the last line first.

    A path below the root of the walk, without its first ``skip`` characters and after ``lead``, is
    relative to that file.
    """

    rules: tuple[_Rule, ...]
    skip: int = 0
    lead: str = ""

    def decides(self, path: str, *, is_folder: bool) -> bool | None:
        """Return whether the path is ignored; None if no rule matches it.

        The library's expressions also match what lies below a folder that they match. In a walk
        that is wrong: such a folder was not entered, or another rule took it back.
        """
        path = self.lead + path[self.skip :]
        for rule in self.rules:
            match = rule.regex.match(path) if is_folder or not rule.of_folders else None
            if match and (match.end() == len(path) or not rule.regex.groupindex):
                return rule.ignores
        return None


class _Folder(NamedTuple):
    """A folder on the way down: its remaining entries, and the patterns that hold in it."""

    path: str
    below: str
    entries: Iterator[os.DirEntry[str]]
    ignores: tuple[_Ignore, ...]


class Selection:
    """Decides which names a walk takes, and counts the others."""

    def __init__(self, options: WalkOptions, counts: WalkCounts) -> None:
        self._options = options
        self._counts = counts
        self._include = _spec("include", options.include) if options.include else None
        self._exclude = _spec("exclude", options.exclude) if options.exclude else None
        self._own = {os.path.realpath(path) for path in options.leave_out}
        self._own_names = {os.path.basename(path) for path in self._own}

    def takes(
        self, path: str, below: str, ignores: tuple[_Ignore, ...] = (), *, is_folder: bool
    ) -> bool:
        """Return whether a file is taken, or a folder entered.

        Parameters
        ----------
        path, below : str
            The whole path, and its part below the folder that was given.
        ignores : tuple of _Ignore
            From the top down.
        """
        if os.path.basename(path) in self._own_names and self.is_own(path):
            return False
        reason = self._refusal(path, below, ignores, is_folder=is_folder)
        if reason:
            self._counts.leave(reason)
        return reason is None

    def takes_match(self, path: str, *, is_folder: bool) -> bool:
        """Do the same for the matches of a pattern, which may be hidden or ignored."""
        below = os.path.normpath(path).lstrip(os.sep)
        if self.is_own(path):
            return False
        if self._is_excluded(below, is_folder=is_folder):
            self._counts.leave("excluded")
            return False
        return True

    def takes_below(self, path: str) -> bool:
        """Do the same for a file below a URL, by its path there."""
        parts = set(path.split("/")) - {".", ".."}
        is_hidden = any(part.startswith(".") for part in parts) and not self._options.hidden
        if is_hidden or self._is_excluded(path, is_folder=False):
            self._counts.leave("hidden" if is_hidden else "excluded")
            return False
        return True

    def is_own(self, path: str) -> bool:
        """Return whether a path is the program's own file or folder, or inside one."""
        if self._own_names.isdisjoint(os.path.abspath(path).split(os.sep)):
            return False
        path = os.path.realpath(path)
        return any(path == own or path.startswith(own + os.sep) for own in self._own)

    def _refusal(
        self, path: str, below: str, ignores: tuple[_Ignore, ...], *, is_folder: bool
    ) -> str | None:
        name = os.path.basename(path)
        if is_folder and name in SKIPPED_FOLDERS:
            return "tools"
        if name.startswith(".") and not self._options.hidden:
            return "hidden"
        for ignore in reversed(ignores):
            is_ignored = ignore.decides(below, is_folder=is_folder)
            if is_ignored is not None:
                if is_ignored:
                    return "ignored"
                break
        return "excluded" if self._is_excluded(below, is_folder=is_folder) else None

    def _is_excluded(self, below: str, *, is_folder: bool) -> bool:
        if self._exclude is not None and self._exclude.match_file(below + "/" * is_folder):
            return True
        return not is_folder and self._include is not None and not self._include.match_file(below)


def walk(
    root: str,
    entries: list[os.DirEntry[str]],
    options: WalkOptions,
    counts: WalkCounts,
) -> Iterator[FoundFile]:
    """Yield the files below a folder in order; a folder that cannot be listed has a problem.

    Parameters
    ----------
    entries : list of os.DirEntry
        Its listing.
    counts : WalkCounts
        What is left out is counted here.
    """
    return without_copies(list(_descend(root, entries, options, counts)), counts)


def without_copies(candidates: Sequence[Candidate], counts: WalkCounts) -> Iterator[FoundFile]:
    """Yield the files, without links to files that are among them, too."""
    files = {entry.identity for entry in candidates if not entry.is_link}
    for entry in candidates:
        if entry.is_link and entry.identity is not None and entry.identity in files:
            counts.leave("links")
            continue
        files.add(entry.identity)
        yield entry.file


def _descend(
    root: str, entries: list[os.DirEntry[str]], options: WalkOptions, counts: WalkCounts
) -> Iterator[Candidate]:
    """Yield the files that are taken, and links to files."""
    selection = Selection(options, counts)
    above = _ignores_above(root) if options.gitignore else ()
    # No recursion: trees may be deeper than Python's limit.
    stack = [_Folder(root, "", iter(entries), above + _ignores_in(entries, "", options))]
    while stack:
        folder = stack[-1]
        entry = next(folder.entries, None)
        if entry is None:
            stack.pop()
            continue
        path = os.path.join(folder.path, entry.name)
        below = folder.below + entry.name
        try:
            is_folder = entry.is_dir(follow_symlinks=False)
            if not selection.takes(path, below, folder.ignores, is_folder=is_folder):
                continue
            if is_folder:
                inside = listing(path)
                if is_index(inside):
                    counts.leave("indexes")
                    continue
                below += "/"
                ignores = folder.ignores + _ignores_in(inside, below, options)
                stack.append(_Folder(path, below, iter(inside), ignores))
                continue
            if entry.is_symlink() and os.path.isdir(path):
                counts.leave("links")
                continue
        except OSError as error:
            yield Candidate(FoundFile(path, problem=f"cannot be listed: {system_reason(error)}"))
            continue
        file = candidate(path)
        if file is None:
            counts.leave("special")
        else:
            yield file


# .gitignore


def _ignores_in(
    entries: list[os.DirEntry[str]], below: str, options: WalkOptions
) -> tuple[_Ignore, ...]:
    """Return the patterns of a folder's own ``.gitignore``, if it has one.

    Raises
    ------
    OSError
        It cannot be read.
    """
    if not options.gitignore:
        return ()
    return tuple(
        _Ignore(_read_gitignore(entry.path), skip=len(below))
        for entry in entries
        if entry.name == ".gitignore" and entry.is_file()
    )


def _ignores_above(root: str) -> tuple[_Ignore, ...]:
    """Return the patterns between the top of the repository and a folder, from the top down.

    None if the folder is in no repository, or is ignored itself.
    """
    ignores: list[_Ignore] = []
    folder, lead = os.path.realpath(root), ""
    while not os.path.lexists(os.path.join(folder, ".git")):
        folder, name = os.path.split(folder)
        if not name:
            return ()
        lead = f"{name}/{lead}"
        path = os.path.join(folder, ".gitignore")
        if os.path.isfile(path):
            try:
                ignores.append(_Ignore(_read_gitignore(path), lead=lead))
            except OSError:  # of somebody else, perhaps: it is not below what was named
                continue
    if any(_ignores_root(ignore) for ignore in ignores):
        return ()
    return tuple(reversed(ignores))


def _ignores_root(ignore: _Ignore) -> bool:
    parts = ignore.lead.rstrip("/").split("/")
    paths = ["/".join(parts[: n + 1]) for n in range(len(parts))]
    return any(ignore._replace(lead="").decides(path, is_folder=True) for path in paths)


def _read_gitignore(path: str) -> tuple[_Rule, ...]:
    """Read the rules of a file; lines that git ignores are ignored.

    Raises
    ------
    OSError
    """
    with open(path, "rb") as file:
        text = os.fsdecode(file.read().removeprefix(b"\xef\xbb\xbf"))
    rules = [_rule(line.removesuffix("\r")) for line in text.split("\n")]
    return tuple(rule for rule in reversed(rules) if rule is not None)


def _rule(line: str) -> _Rule | None:
    stripped = line.rstrip(" ")
    line = line[: len(stripped) + stripped.endswith("\\")]  # a blank behind a backslash stays
    of_folders = line.endswith("/")
    sign = "!" * line.startswith("!")
    parts = line.removeprefix("!").removesuffix("/").split("/")
    # Two stars mean more than one only between slashes, which the library does not know.
    parts = [_STARS.sub("**" if set(part) == {"*"} and parts[1:] else "*", part) for part in parts]
    [pattern] = _patterns(sign + "/".join(parts)) or [None]
    if pattern is None or pattern.include is None:
        return None
    return _Rule(pattern.regex, bool(pattern.include), of_folders)


_STARS = re.compile(r"(?<!\\)\*\*+")


def _patterns(line: str) -> list[Any]:
    """Return the library's pattern for a line; nothing if the line has no pattern."""
    from pathspec import GitIgnoreSpec

    try:
        patterns: list[Any] = list(GitIgnoreSpec.from_lines([line]).patterns)
    except ValueError:
        return []
    for pattern in patterns:
        if pattern.regex is not None:
            pattern.regex = re.compile(_decided_early(pattern.regex.pattern), pattern.regex.flags)
    return patterns


_CLASS = r"\[\^?\]?(?:\\.|[^\]\\])*\]"
_ESCAPED_OR_CLASS = re.compile(rf"\\.|{_CLASS}")
_STAR = r"\[\^/\]\*"
_INNER_STAR = re.compile(
    rf"{_STAR}((?:\\.|\(\?!/\)|(?!{_STAR}){_CLASS}|[^\[\\/()*+?|])*)(?={_STAR})"
)
_FOLDERS_BETWEEN = re.compile(r"(\(\?:\.\+/\)\?|\(\?:/\.\+\)\?)")


def _without_slash(match: re.Match[str]) -> str:
    part = match[0]
    return f"(?!/){part}" if part.startswith("[^") and part != "[^/]" else part


def _decided_early(regex: str) -> str:
    """Return the library's expression with the same matches, in which stars are not tried in turn.

    What stands between two stars of a name, or between two ``**``, is taken where it comes first:
    if anything matches, that does. The last one stays as it is. A slash is in no class, as in git.
    """
    regex = _ESCAPED_OR_CLASS.sub(_without_slash, regex)
    regex = _INNER_STAR.sub(r"(?>[^/]*?\1)", regex)
    first, *rest = _FOLDERS_BETWEEN.split(regex)
    pairs = list(zip(rest[::2], rest[1::2], strict=True))
    early = [f"(?>{gap[:-2].replace('+', '+?')})??{names}(?=/))" for gap, names in pairs[:-1]]
    return first + "".join(early) + "".join(rest[-2:])


def _spec(name: str, patterns: Sequence[str]) -> GitIgnoreSpec | None:
    """Return what matches a caller's patterns.

    Raises
    ------
    ParameterError
        One of them is no pattern.
    """
    if not patterns:
        return None
    from pathspec import GitIgnoreSpec

    every = []
    for pattern in patterns:
        is_text = isinstance(pattern, str) and bool(pattern.strip())
        of_pattern = [] if not is_text or pattern.startswith(("!", "#")) else _patterns(pattern)
        if not of_pattern:
            raise ParameterError(
                f"{name} holds {pattern!r}, expected a pattern such as '*.py' or 'docs/'",
                hint="patterns are those of .gitignore files, without '!'",
            )
        every += of_pattern
    return GitIgnoreSpec(every, backend="simple")


# Texts or records


def format_of_name(path: str) -> str | None:
    """Return the format that a name says, ignoring its compression; None if it says none."""
    return BY_EXTENSION.get(_inner_ending(path))


def _inner_ending(path: str) -> str:
    stem, ending = os.path.splitext(path.lower())
    return os.path.splitext(stem)[1] if ending in BY_COMPRESSION else ending


def kind_of_name(path: str) -> str:
    """Return the kind of a file by its name: text, records (or markup), binary or neutral."""
    name = os.path.basename(path)
    ending = _inner_ending(name)
    if ending in BY_EXTENSION or by_name(name) is not None:
        return "records"
    if re.fullmatch(_BINARY, ending):
        return "binary"
    return "neutral" if re.fullmatch(_NEUTRAL, name) else "text"


def holds_texts(
    root: str,
    paths: Sequence[str],
    counts: WalkCounts,
    *,
    may: bool = True,
    is_of_job: bool = False,
) -> bool:
    """Return whether every file of a folder is one text, with any ending.

    Parameters
    ----------
    root : str
        The folder, for the note.
    paths : sequence of str
        The files found in it.
    counts : WalkCounts
        Takes a note if the folder holds texts as well as records.
    may : bool
        Whether that is possible; if not, only the note is wanted.
    is_of_job : bool
        Whether a job has left markers there, whose files of any format may have no ending.
    """
    kinds = [kind_of_name(path) for path in paths]
    n_records = kinds.count("records")
    n_texts = kinds.count("text")
    if is_of_job or any(_needs_arrow(path) for path in paths):
        n_texts -= sum(
            kind == "text" and not ending_of(path) for path, kind in zip(paths, kinds, strict=True)
        )
    are_texts = may and n_texts > n_records
    odd_kinds = ("records",) if are_texts else ("text", "neutral")
    odd = [path for path, kind in zip(paths, kinds, strict=True) if kind in odd_kinds]
    if are_texts:
        odd = [path for path in odd if not _is_array(path)]  # as binary files they are left out
    if odd and n_records:
        shown = _most(Counter(map(ending_of, odd)))
        counts.notes.append(
            f"{printable(root)}: most of its files are plain texts, so each is read as one text, "
            f"also {len(odd):,} with the endings of records or markup ({shown}); name these to "
            "read them as records"
            if are_texts
            else f"{printable(root)}: holds {n_records:,} file{'s' * (n_records > 1)} with the "
            f"endings of records or markup, and {len(odd):,} other{'s' * (len(odd) > 1)} "
            f"({shown}), each read as one text; choose with "
            "--include or --exclude, or read all as texts with --input text"
        )
    return are_texts


def _is_array(path: str) -> bool:
    name = BY_EXTENSION.get(ending_of(path))
    return name is not None and FORMATS[name].has_rows


def _needs_arrow(path: str) -> bool:
    name = format_of_name(path)
    return name is not None and FORMATS[name].needs_arrow


def ending_of(path: str) -> str:
    """Return the ending of a name, in lower case."""
    return os.path.splitext(path)[1].lower()


def _most(endings: Counter[str]) -> str:
    """Return the most frequent endings as a short list."""
    names = [printable(ending) or "no ending" for ending, _ in endings.most_common(_SHOWN)]
    return ", ".join(names) + ", …" * (len(endings) > _SHOWN)
