"""The user's own tokenizers, how an index finds its tokenizer again, and published stop words.

An index of unit ``tokenizer`` stores a name and a version. The caller passes the tokenizer when
opening the index, or an installed distribution offers it under the entry-point group
``lshdb.tokenizers``: as a :class:`Tokenizer`, or as a function, whose version is then that of its
distribution.

Decided: the tokenizer is loaded when the first text is split, so that you can list, count, check
and query an index by SQL without having its tokenizer. Its results are checked, because a signature
of anything but strings would go unnoticed until a search finds nothing.

Stop words come from the package ``stop-words`` (Alireza Savand). An index stores the words, so the
package is needed once, and another version of it changes nothing.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lshdb.errors import ParameterError, ParameterMismatchError, TokenizerError, install_command

if TYPE_CHECKING:
    from lshdb.documents.document import Document

__all__ = [
    "GROUP",
    "Tokenizer",
    "UnsplitTextError",
    "given_tokenizer",
    "naming_text",
    "published_stop_words",
    "splitter",
]

GROUP = "lshdb.tokenizers"
"""Entry-point group under which distributions offer tokenizers."""


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """A function that cuts texts into tokens, with the name and version that an index stores.

    Parameters
    ----------
    split : callable
        Text -> iterable of str, always the same tokens for the same text; empty ones are dropped.
        It receives the normalised text, which by default is the unchanged text.
    name, version : str
        Without white space. Change the version whenever the function returns other tokens.

    Raises
    ------
    ParameterError
        ``split`` is not a function, or a name or version is empty or holds white space.
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
        """Name and version, as stored in the parameter ``tokenizer``."""
        return f"{self.name} {self.version}"


def installed_tokenizer(name: str) -> Tokenizer:
    """Load the tokenizer of a name from the installed distribution that offers it.

    Raises
    ------
    TokenizerError
        It is not installed, or cannot be loaded.
    """
    from importlib.metadata import entry_points

    offered = entry_points(group=GROUP)
    entries = [entry for entry in offered if entry.name == name]
    if not entries:
        names = ", ".join(sorted(offered.names)) or "none"
        raise TokenizerError(
            f"no tokenizer {name!r} is installed; the installed ones are: {names}",
            hint=f"install the package that offers {name!r} in the entry-point group {GROUP}, "
            "or open the index from Python with tokenizer=",
        )
    entry = entries[0]
    try:
        loaded = entry.load()
    except (Exception, SystemExit) as error:  # importing that package may raise anything
        raise TokenizerError(
            f"the tokenizer {name!r} cannot be loaded from {entry.value}: {error}",
            hint="fix or reinstall the package that offers it",
        ) from error
    if isinstance(loaded, Tokenizer):
        if loaded.name != name:
            raise TokenizerError(
                f"the tokenizer offered as {name!r} calls itself {loaded.name!r}",
                hint="use one name for both in the package that offers it",
            )
        return loaded
    version = entry.dist.version if entry.dist is not None else ""
    try:
        return Tokenizer(loaded, name=name, version=version)
    except ParameterError as error:
        raise TokenizerError(
            f"the tokenizer {name!r}, offered as {entry.value}, cannot be used: {error.message}",
            hint="fix the package that offers it",
        ) from error


def given_tokenizer(tokenizer: object) -> Tokenizer | None:
    """Return the caller's tokenizer, given as a tokenizer, an installed one's name, or None.

    Raises
    ------
    ParameterError
        The argument is none of these.
    TokenizerError
        No tokenizer of that name is installed.
    """
    if isinstance(tokenizer, str):
        return installed_tokenizer(tokenizer)
    if tokenizer is None or isinstance(tokenizer, Tokenizer):
        return tokenizer
    raise ParameterError(
        f"tokenizer is {tokenizer!r:.80}; expected a name or an lshdb.Tokenizer",
        hint="wrap your function: lshdb.Tokenizer(function, name=..., version=...)",
    )


class UnsplitTextError(TokenizerError):
    """The tokenizer failed on a text; the fault may be the text's."""


@contextlib.contextmanager
def naming_text(documents: Iterable[Document], split: Callable[[Any], object]) -> Iterator[None]:
    """Find the text on which the tokenizer failed, and name it in the error.

    If the tokenizer is missing or cannot be loaded, no text is at fault and the error stays
    unchanged.
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


def splitter(recorded: str, own: Tokenizer | None = None) -> Callable[[str], list[str]]:
    """Return the function that splits the texts of an index.

    Parameters
    ----------
    recorded : str
        The index's parameter ``tokenizer``.
    own : Tokenizer, optional
        The caller's tokenizer; without it, the installed one is loaded for the first text.

    Returns
    -------
    callable
        Text -> list of tokens, none empty. It raises TokenizerError if the tokenizer is not
        installed, fails, or returns an invalid token, and ParameterMismatchError if another
        version of it is installed.
    """

    @functools.cache
    def tokenizer() -> Tokenizer:
        return own if own is not None else _of_index(recorded)

    def split(text: str) -> list[str]:
        return _tokens(tokenizer(), text)

    return split


def _of_index(recorded: str) -> Tokenizer:
    name, _, version = recorded.partition(" ")
    try:
        tokenizer = installed_tokenizer(name)
    except TokenizerError as error:
        raise TokenizerError(
            f"the index splits texts with the tokenizer {recorded}: {error.message}",
            hint=error.hint,
        ) from error
    if tokenizer.recorded != recorded:
        raise ParameterMismatchError(
            f"the index splits texts with the tokenizer {recorded}, "
            f"but {tokenizer.recorded} is installed",
            name="tokenizer",
            stored=recorded,
            given=tokenizer.recorded,
            hint=f"install version {version} of the package that offers {name}",
        )
    return tokenizer


def _tokens(tokenizer: Tokenizer, text: str) -> list[str]:
    try:
        returned = tokenizer.split(text)
        tokens = list(returned)
    except (Exception, SystemExit) as error:  # the user's function may raise anything
        raise UnsplitTextError(
            f"the tokenizer {tokenizer.recorded} failed: {type(error).__name__}: {error}",
            hint="fix it under a new version, or leave out the text that it cannot split",
        ) from error
    if isinstance(returned, str):
        raise _no_token(tokenizer, "one string")
    for token in tokens:
        if not isinstance(token, str):
            raise _no_token(tokenizer, f"{token!r:.80}, which is of type {type(token).__name__}")
        if not token.isascii() and token.encode(errors="ignore").decode() != token:
            raise _no_token(tokenizer, "a token with a lone surrogate")
    return [token for token in tokens if token]


def _no_token(tokenizer: Tokenizer, what: str) -> TokenizerError:
    return UnsplitTextError(
        f"the tokenizer {tokenizer.recorded} returned {what}; expected an iterable of strings",
        hint="fix it under a new version",
    )


def published_stop_words(language: str) -> list[str]:
    """Return the stop words of a language, as ``lshdb.Index.create(stop_words=...)`` takes them.

    Parameters
    ----------
    language : str
        ISO 639-1 code, such as ``"en"``, or English name.

    Returns
    -------
    list of str
        Sorted; of the installed version of the package ``stop-words``.

    Raises
    ------
    ParameterError
        The package is not installed (extra ``lshdb[stopwords]``), or has no list of the language.
    """
    try:
        import stop_words
    except ImportError as error:
        raise ParameterError(
            "published stop words need the package stop-words, which is not installed",
            hint=f"{install_command('stopwords')}, or give the words in a file",
        ) from error
    if language not in (*stop_words.LANGUAGE_MAPPING, *stop_words.AVAILABLE_LANGUAGES):
        raise ParameterError(
            f"there are no published stop words of {language!r}; the languages are "
            f"{', '.join(sorted(stop_words.LANGUAGE_MAPPING))}",
            hint="give one of them, or the words in a file",
        )
    return sorted(stop_words.get_stop_words(language))
