"""Positional shingles of the paths of URLs, to find mirrors of a host.

A document is the list of a host's known URLs, one per line. Two hosts that hold the same files
under the same paths have the same shingles, because shingles leave out the host.

The path and the query of each URL count. The fragment is dropped, percent escapes are decoded, the
text is normalised and cut into its runs of letters with their marks (digits, punctuation and
underscores separate), and stop tokens are left out. A shingle is k consecutive tokens with the
position of the first, counted from 0. With k = 2, the shingles of
``/cellblock16/inmates/dilbert/personal/foo.htm`` are (cellblock, inmates, 0),
(inmates, dilbert, 1), (dilbert, personal, 2), (personal, foo, 3). The position
distinguishes paths that hold the same words in different places.

Unit ``url-host`` adds each token of the host's name as a shingle of its own, followed by the word
``host``, so that no shingle of a path is equal to it. Digits separate here too, and stop tokens are
kept: ``www6.infoseek.com`` gives ``www``, ``infoseek`` and ``com``. User and port do not count. So
hosts are alike, too, if their names are, as those of one server's many names.

The method is that of Bharat, Broder, Dean and Henzinger, "A comparison of techniques to find
mirrored hosts on the WWW", 2000, section 3 (positional word bigrams; stop terms).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from urllib.parse import unquote

from lshdb.errors import ParameterError
from lshdb.shingling.normalise import NORMALISATION, normalise
from lshdb.shingling.words import split_letters

__all__ = [
    "DEFAULT_STOP_TOKENS",
    "URL_UNITS",
    "host_shingles",
    "split_url",
    "stop_token_list",
    "url_content",
    "url_shingles",
]

URL_UNITS = ("url", "url-host")
"""The units of lists of URLs: paths alone, or with the tokens of host names."""

DEFAULT_STOP_TOKENS = (
    # Extensions: two mirrors may serve one page as .htm and as .html, or by another program.
    "asp aspx cfm cgi do htm html jsp jspx php phtml shtml txt xhtml "
    # Documents that a server returns for a folder, and the folder of programs.
    "bin default home index main "
    # The scheme and host of a whole URL inside a query or an archive's path.
    "com ftp http https net org www"
)
"""Tokens that describe how a page is served and not which page it is."""


@functools.cache
def _with_host() -> re.Pattern[str]:
    return re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?//([^/?#]*)(.*)", re.DOTALL)


@functools.cache
def _bare_host() -> re.Pattern[str]:
    return re.compile(r"([^\s/?#@:.]*+\.[^\s/?#@:]*+(?::[0-9]*)?)((?:[/?#].*)?)", re.DOTALL)


def split_url(url: str) -> tuple[str, str | None, str]:
    """Cut a URL into scheme, host and the rest.

    Parameters
    ----------
    url : str
        ``http://host/path``, ``//host/path``, ``host.tld/path`` or ``/path``. Without a scheme, the
        part before the first slash is a host if it has a dot and no blank.

    Returns
    -------
    scheme : str
        Lower-case; empty without one.
    host : str or None
        As the URL spells it, with user and port; None without one.
    rest : str
        Path, query and fragment.
    """
    match = _with_host().fullmatch(url)
    if match is not None:
        return (match[1] or "").lower(), match[2] or None, match[3]
    match = _bare_host().fullmatch(url)
    if match is not None and any(map(str.isalnum, match[1].partition(":")[0])):
        return "", match[1], match[2]
    return "", None, url


def stop_token_list(tokens: Iterable[str], normalisation: str) -> str:
    """Return stop tokens in their stored form: cut like URLs, sorted, distinct, joined by blanks.

    A string is split at white space; any other iterable holds tokens. The tokens are normalised
    and cut into their runs of letters, so that ``index.html`` stands for ``index`` and ``html``.
    """
    try:
        text = tokens if isinstance(tokens, str) else " ".join(tokens)
    except TypeError as error:
        raise ParameterError(
            f"stop_tokens is {tokens!r:.80}; expected a string or strings"
        ) from error
    recorded = " ".join(sorted(set(split_letters(normalise(text, normalisation)))))
    if text.strip() and not recorded:
        raise ParameterError(
            f"stop_tokens is {text!r:.80}, which holds no letters and would leave nothing out",
            hint="give runs of letters, or an empty list to leave nothing out",
        )
    return recorded


def url_shingles(
    url: str, *, k: int, stop_tokens: frozenset[str], normalisation: str = NORMALISATION
) -> list[str]:
    """Return the positional shingles of one URL, in order.

    Parameters
    ----------
    url : str
        One URL, without white space around it.
    k : int
        Tokens per shingle, at least 1.
    stop_tokens : frozenset of str
        Normalised tokens to leave out.
    normalisation : str
        Name of the procedure.

    Returns
    -------
    list of str
        Tokens and position, joined by single blanks. If fewer than k tokens are left, one shingle
        of them all; without tokens, none.
    """
    path = split_url(url.strip())[2].partition("#")[0]
    letters = split_letters(normalise(unquote(path, errors="replace"), normalisation))
    tokens = [token for token in letters if token not in stop_tokens]
    if not tokens:
        return []
    count = max(1, len(tokens) - k + 1)
    return [" ".join([*tokens[start : start + k], str(start)]) for start in range(count)]


def host_shingles(url: str, normalisation: str = NORMALISATION) -> list[str]:
    """Return the shingles of the host's name in one URL, in order: each token, and ``host``."""
    host = (split_url(url.strip())[1] or "").rpartition("@")[2]
    return [f"{token} host" for token in split_letters(normalise(host, normalisation))]


def url_content(
    urls: Iterable[str],
    *,
    k: int,
    bag: bool,
    stop_tokens: frozenset[str],
    normalisation: str = NORMALISATION,
    with_hosts: bool = False,
) -> str:
    """Return the canonical content of a set of URLs: its shingles, one per line, sorted.

    The order of the URLs does not count. Repeated shingles count only with ``bag``. With
    ``with_hosts`` the shingles of :func:`host_shingles` are among them.
    """
    shingles: list[str] = []
    for url in urls:
        shingles += url_shingles(url, k=k, stop_tokens=stop_tokens, normalisation=normalisation)
        if with_hosts:
            shingles += host_shingles(url, normalisation)
    return "\n".join(sorted(shingles if bag else set(shingles)))
