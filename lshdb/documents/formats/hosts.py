"""Lists of URLs: one document per host, with the host as key and its URLs as body.

Decided: a host's URLs may be anywhere in any of the lists that are read together, so they are
grouped on disk (``disksort/sorted_rows.py``), and documents follow after the last list. The body
is the distinct URLs as the lists spell them, sorted, one per line. Spellings of a host that differ
in letter case, user info or the scheme's default port are one host.

A later read knows nothing of an earlier one: its document of a host replaces the earlier one, or is
united with it (``ingest/unite.py``).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from operator import itemgetter

from lshdb.arguments import printable
from lshdb.disksort.sorted_rows import Scratch
from lshdb.documents.document import (
    Document,
    Rejected,
    validate_key,
)
from lshdb.documents.io.streams import OpenFile, TooLong, split_lines
from lshdb.shingling import split_url

__all__ = ["UrlGroups", "host_key"]

_DEFAULT_PORTS = {
    "http": (80,), "https": (443,), "ftp": (21,), "ws": (80,), "wss": (443,), "": (80, 443),
}  # fmt: skip
"""By scheme; a URL without one may be http or https, so both ports are listed."""


class _NoHostError(Exception):
    """A URL has no usable host; the message is the reason."""


def host_key(url: str) -> str:
    """Return the host of a URL in lower case, with its port unless it is the scheme's default.

    Letter case, user info and leading zeros of the port make no difference.

    Raises
    ------
    _NoHostError
        The URL has no host, or its host cannot be a key.
    """
    scheme, authority, _ = split_url(url)
    host, port = _parted((authority or "").rpartition("@")[2].lower())
    if not host:
        raise _NoHostError("no host, expected a URL such as http://example.com/a or example.com/a")
    if any(character.isspace() for character in host):
        raise _NoHostError(f"the host {host[:80]!r} holds white space")
    if port and not (port.isascii() and port.isdigit() and len(port) < 10 and int(port) < 65536):
        raise _NoHostError(f"the port {port[:20]!r} is not a number up to 65535")
    if host.count("[") != host.count("]") or (":" in host and "[" not in host):
        raise _NoHostError(f"the host {host[:80]!r} has a stray bracket or colon")
    if port and int(port) not in _DEFAULT_PORTS.get(scheme, ()):
        host += f":{int(port)}"
    reason = validate_key(host)
    if reason is not None:
        raise _NoHostError(reason)
    return host


def _parted(authority: str) -> tuple[str, str]:
    """Split into host and port; an IPv6 address in brackets holds colons itself."""
    host, colon, port = authority.rpartition(":")
    if not colon or "]" in port:
        return authority, ""
    return host, port


class UrlGroups:
    """Collects lists of URLs and yields a document for each host.

    A context manager; leaving it deletes its files.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._names: list[str] = []
        self._scratch = Scratch()

    def __enter__(self) -> UrlGroups:
        return self

    def __exit__(self, *error: object) -> None:
        self._scratch.__exit__(None, None, None)

    def read(self, file: OpenFile) -> Iterator[Rejected]:
        """Read one list.

        Yields
        ------
        Rejected
            One for each line that is neither blank nor a URL with a host.

        Raises
        ------
        BrokenSourceError
            As the chunks raise it, with the line; the lines before it are kept.
        DatabaseError
            The temporary database failed.
        """
        self._names.append(file.name)
        for number, line in enumerate(split_lines(file.chunks, self._limit), start=1):
            source = f"{file.name}:{number}"
            if isinstance(line, TooLong):
                reason = f"the line has {line.size:,} bytes, more than the limit of {self._limit:,}"
                yield Rejected(source, reason)
                continue
            try:
                url = line.decode("utf-8").strip()
                if url:
                    self._scratch.put(host_key(url), url, len(self._names) - 1)
            except UnicodeDecodeError as error:
                yield Rejected(source, f"not valid UTF-8 at byte {error.start + 1} of the line")
            except _NoHostError as error:
                yield Rejected(source, str(error))

    def documents(self) -> Iterator[Document | Rejected]:
        """Yield a document for each host, in order of hosts; one over the limit is rejected."""
        for host, rows in itertools.groupby(self._scratch, key=itemgetter(0)):
            urls: list[str] = []
            size, first = 0, len(self._names)
            for _, url, source in rows:
                size += len(url.encode()) + 1
                first = min(first, source)
                if size <= self._limit + 1:
                    urls.append(url)
                else:
                    urls.clear()
            name = self._names[first]
            if urls:
                yield Document(host, "\n".join(urls), name)
            else:
                reason = f"the URLs of {printable(host)} have more bytes than the limit of "
                reason += f"{self._limit:,}"
                yield Rejected(name, reason)
