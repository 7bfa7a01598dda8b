"""Tokenizers of the user's own: what one is, and how the one of an index is found again.

An index of unit ``tokenizer`` records a name and a version. Whoever opens it gives the tokenizer,
or a distribution that is installed offers it under the entry-point group ``lshdb.tokenizers``: an
object that is a :class:`Tokenizer`, or a function, whose version is then that of its distribution.

Decided: it is looked for when the first text is to be split, so that an index can be listed,
counted, checked and asked in SQL where its tokenizer is not installed. What it gives is checked,
because a signature of something else than strings would not be noticed until nothing is found.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lshdb.errors import ParameterError, ParameterMismatchError, TokenizerError

if TYPE_CHECKING:
    from lshdb.documents import Document

__all__ = [
    "GROUP",
    "Tokenizer",
    "UnsplitTextError",
    "given_tokenizer",
    "naming_text",
    "splitter",
]

GROUP = "lshdb.tokenizers"
"""Entry-point group under which distributions offer tokenizers."""


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """A function that cuts texts into tokens, under a name and version that are recorded.

    Parameters
    ----------
    split : callable
        Text -> iterable of str, the same tokens for the same text at any time; empty ones are
        dropped. It is given the normalised text, which unless asked otherwise is the text as it is.
    name, version : str
        Without white space. Whoever changes what the function gives changes the version.

    Raises
    ------
    ParameterError
        ``split`` is no function, or a name is empty or holds white space.
    """

    split: Callable[[str], Iterable[str]]
    name: str = field(kw_only=True)
    version: str = field(kw_only=True)

    def __post_init__(self) -> None:
        if not callable(self.split):
            raise ParameterError(f"split is {self.split!r}; expected a function")
        for what, value in (("name", self.name), ("version", self.version)):
            if not isinstance(value, str) or not value.isprintable() or value.split() != [value]:
                raise ParameterError(
                    f"the tokenizer's {what} is {value!r}; expected a string without white space"
                )

    @property
    def recorded(self) -> str:
        """Name and version, as the parameter ``tokenizer`` holds them."""
        return f"{self.name} {self.version}"


def installed_tokenizer(name: str) -> Tokenizer:
    """The tokenizer of that name which an installed distribution offers.

    Raises
    ------
    TokenizerError
        There is none, or it cannot be loaded.
    """
    from importlib.metadata import entry_points

    offered = entry_points(group=GROUP)
    found = [entry for entry in offered if entry.name == name]
    if not found:
        there = ", ".join(sorted(offered.names)) or "none"
        raise TokenizerError(
            f"no tokenizer {name!r} is installed; installed are: {there}",
            hint=f"install the package that offers {name!r} in the entry-point group {GROUP}, "
            "or open the index from Python with tokenizer=",
        )
    entry = found[0]
    try:
        loaded = entry.load()
    except (Exception, SystemExit) as error:  # whatever that package does when it is imported
        raise TokenizerError(
            f"the tokenizer {name!r} cannot be loaded from {entry.value}: {error}",
            hint="mend or reinstall the package that offers it",
        ) from error
    if isinstance(loaded, Tokenizer):
        if loaded.name != name:
            raise TokenizerError(
                f"the tokenizer offered as {name!r} calls itself {loaded.name!r}",
                hint="have the package that offers it use one name for both",
            )
        return loaded
    version = entry.dist.version if entry.dist is not None else ""
    try:
        return Tokenizer(loaded, name=name, version=version)
    except ParameterError as error:
        raise TokenizerError(
            f"the tokenizer {name!r}, offered as {entry.value}, cannot be used: {error.message}",
            hint="mend the package that offers it",
        ) from error


def given_tokenizer(tokenizer: object) -> Tokenizer | None:
    """What the caller gave as tokenizer: one, the name of an installed one, or None.

    Raises
    ------
    ParameterError
        It is none of these.
    TokenizerError
        No tokenizer of that name is installed.
    """
    if isinstance(tokenizer, str):
        return installed_tokenizer(tokenizer)
    if tokenizer is None or isinstance(tokenizer, Tokenizer):
        return tokenizer
    raise ParameterError(
        f"tokenizer is {tokenizer!r:.80}; expected a name or an lshdb.Tokenizer",
        hint="lshdb.Tokenizer(function, name=..., version=...) names what the index is made with",
    )


class UnsplitTextError(TokenizerError):
    """The tokenizer is there, and failed on a text: the text may be at fault as well."""


@contextlib.contextmanager
def naming_text(documents: Iterable[Document], split: Callable[[Any], object]) -> Iterator[None]:
    """Find out, where the tokenizer fails on some texts, on which, and say so in its error.

    A tokenizer that is not there, or cannot be loaded, is no text's fault; that error stays as it
    is.
    """
    try:
        yield
    except UnsplitTextError:
        for document in documents:
            try:
                split(document.body)
            except UnsplitTextError as error:
                where = document.source or f"key {document.key!r}"
                raise UnsplitTextError(f"{where}: {error.message}", hint=error.hint) from error
        raise


def splitter(recorded: str, given: Tokenizer | None = None) -> Callable[[str], list[str]]:
    """The function that splits the texts of an index.

    Parameters
    ----------
    recorded : str
        The index's parameter ``tokenizer``.
    given : Tokenizer, optional
        What the caller has; else it is looked for when the first text comes.

    Returns
    -------
    callable
        Text -> list of tokens, none empty. It raises TokenizerError where the tokenizer is not
        installed, fails, or gives what is no token, and ParameterMismatchError where another
        version of it is installed.
    """

    @functools.cache
    def tokenizer() -> Tokenizer:
        return given if given is not None else _of_index(recorded)

    def split(text: str) -> list[str]:
        return _tokens(tokenizer(), text)

    return split


def _of_index(recorded: str) -> Tokenizer:
    name, _, version = recorded.partition(" ")
    try:
        found = installed_tokenizer(name)
    except TokenizerError as error:
        raise TokenizerError(
            f"the index splits texts with the tokenizer {recorded}: {error.message}",
            hint=error.hint,
        ) from error
    if found.recorded != recorded:
        raise ParameterMismatchError(
            f"the index splits texts with the tokenizer {recorded}, "
            f"and installed is {found.recorded}",
            name="tokenizer",
            stored=recorded,
            given=found.recorded,
            hint=f"install version {version} of the package that offers {name}",
        )
    return found


def _tokens(tokenizer: Tokenizer, text: str) -> list[str]:
    try:
        given = tokenizer.split(text)
        tokens = list(given)
    except (Exception, SystemExit) as error:  # a function of the user's own may raise anything
        raise UnsplitTextError(
            f"the tokenizer {tokenizer.recorded} failed: {type(error).__name__}: {error}",
            hint="mend it under a new version, or leave out the text it cannot split",
        ) from error
    if isinstance(given, str):
        raise _no_token(tokenizer, "one string")
    for token in tokens:
        if not isinstance(token, str):
            raise _no_token(tokenizer, f"{token!r:.80}, which is of type {type(token).__name__}")
        if not token.isascii() and token.encode(errors="ignore").decode() != token:
            raise _no_token(tokenizer, "a token with a lone surrogate")
    return [token for token in tokens if token]


def _no_token(tokenizer: Tokenizer, what: str) -> TokenizerError:
    return UnsplitTextError(
        f"the tokenizer {tokenizer.recorded} gave {what}; expected an iterable of strings",
        hint="mend it under a new version",
    )
