"""Where a database is, as ``index.toml`` says it; and its URL without what is secret in it.

Code that shows, logs or records a URL passes it through :func:`hide_passwords`; nothing else knows
where a URL may hold a password. Three forms are known, also mixed:

    scheme://user:PASSWORD@host:port/name
    scheme://host/name?password=PASSWORD&sslpassword=PASSWORD
    host=... user=... password=PASSWORD             (libpq's list of settings)

Decided: when in doubt, hide more, not less. A password that was not percent-encoded may hold any of
``@/?#:``, so everything from the first colon to the last ``@`` is hidden. The price is a less
readable message if something after the host holds an ``@`` too. The name of a password *file* is
not secret and stays.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lshdb.errors import HIDDEN, is_secret

__all__ = ["DatabasePlace", "hide_passwords"]


@dataclass(frozen=True, slots=True)
class DatabasePlace:
    """Where a database is.

    Attributes
    ----------
    url : str or None
        Without a password; None for the file ``index.db`` in the index.
    schema : str or None
        Schema in a Postgres database; None for one named after the index.
    """

    url: str | None = None
    schema: str | None = None


_SCHEME = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*://")
_NAME = re.compile(r"(?:(?<=[?&;#\s])|^)([^=?&;#\s]+)\s*=\s*")
_IN_QUERY = re.compile(r"[^&]*")
_IN_LIST = re.compile(r"'(?:[^'\\]|\\.)*(?:'|\Z)|(?:\\.|\S)*", re.DOTALL)


def hide_passwords(url: str) -> str:
    """Return a database URL with ``***`` instead of every password.

    Parameters
    ----------
    url : str
        URL of any database, or whatever was given instead of one.

    Returns
    -------
    str
        The same URL if it has no password, or all are hidden already.
    """
    scheme = _SCHEME.match(url)
    start = scheme.end() if scheme else 0
    at = url.rfind("@")
    colon = url.find(":", start, max(at, 0))
    if colon >= 0:
        url = f"{url[: colon + 1]}{HIDDEN}{url[at:]}"
    return _without_secret_settings(url, _IN_QUERY if scheme or "?" in url else _IN_LIST)


def _without_secret_settings(url: str, value: re.Pattern[str]) -> str:
    masked = ""
    place = 0
    for setting in _NAME.finditer(url):
        if setting.start() >= place and is_secret(setting[1]):
            masked += url[place : setting.end()] + HIDDEN
            hidden = value.match(url, setting.end())
            place = hidden.end() if hidden else len(url)
    return masked + url[place:]
