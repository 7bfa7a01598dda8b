"""No password of a database URL reaches a message, a file, a traceback or a repr."""

from __future__ import annotations

import logging
import os
import traceback
from pathlib import Path

import pytest

from lshdb import Index, ParameterError
from lshdb.storage.dialects.database_urls import hide_passwords

SECRET = "s3cr3t"

HIDES = [
    ("postgresql://me:s3cr3t@host/db", "postgresql://me:***@host/db"),
    ("postgresql+psycopg://me:s3cr3t@host:5432/db?a=b", "postgresql+psycopg://me:***@host:5432/db?a=b"),
    ("postgresql://:s3cr3t@host/db", "postgresql://:***@host/db"),
    ("postgresql://me:@host/db", "postgresql://me:***@host/db"),
    ("postgresql://me:%73s3cr3t%40x@host/db", "postgresql://me:***@host/db"),
    ("postgresql://me:s3cr3t@[::1]:5432/db", "postgresql://me:***@[::1]:5432/db"),
    ("postgresql://me:s3cr3t@h1:1,h2:2/db", "postgresql://me:***@h1:1,h2:2/db"),
    ("postgresql:///db?password=s3cr3t", "postgresql:///db?password=***"),
    ("postgresql:///db?user=me&password=s3cr3t&port=1", "postgresql:///db?user=me&password=***&port=1"),
    ("postgresql:///db?PASSWORD=s3cr3t", "postgresql:///db?PASSWORD=***"),
    ("postgresql:///db?p%61ssword=s3cr3t", "postgresql:///db?p%61ssword=***"),
    ("postgresql:///db?password=s3cr3t&password=x&sslpassword=s3cr3t", "postgresql:///db?password=***&password=***&sslpassword=***"),
    ("postgresql:///db?oauth_client_secret=s3cr3t", "postgresql:///db?oauth_client_secret=***"),
    ("postgresql:///db?password=a b=s3cr3t;s3cr3t#s3cr3t?s3cr3t", "postgresql:///db?password=***"),
    ("postgresql://me:a@host/db?sslpassword=s3cr3t&passfile=/a", "postgresql://me:***@host/db?sslpassword=***&passfile=/a"),
    # not percent-encoded as they ought to be
    ("postgresql://me:s3cr3t@s3cr3t@host/db", "postgresql://me:***@host/db"),
    ("postgresql://me:s3cr3t/s3cr3t@host/db", "postgresql://me:***@host/db"),
    ("postgresql://me:1?s3cr3t#s3cr3t@host/db", "postgresql://me:***@host/db"),
    ("postgresql://me:12/s3cr3t:x@host/db", "postgresql://me:***@host/db"),
    # no URLs
    ("me:s3cr3t@host/db", "me:***@host/db"),
    ("postgresql:me:s3cr3t@host", "postgresql:***@host"),
    ("http://[me:s3cr3t@host", "http://[me:***@host"),
    ("host=h user=me password=s3cr3t port=1", "host=h user=me password=*** port=1"),
    ("password = 's3 s3cr3t\\' s3cr3t' host=h", "password = *** host=h"),
    ("password='s3cr3t is not closed", "password=***"),
    ("host=h PassWord=a\\ s3cr3t", "host=h PassWord=***"),
    ("Server=h;Pwd=s3cr3t;Database=x", "Server=h;Pwd=***"),
    ("password=s3cr3t", "password=***"),
    ("postgresql:///db?a=b;password=s3cr3t", "postgresql:///db?a=b;password=***"),
    ("  postgresql://me:s3cr3t@host/db", "  postgresql://me:***@host/db"),
    ("\ud800://me:s3cr3t@host/\0", "\ud800:***@host/\0"),
]  # fmt: skip

KEEPS = [
    "", "sqlite:///data/index.db", "postgresql://host/db", "postgresql://me@host:5432/db",
    "postgresql://[::1]:5432/db", "postgresql:///db?passfile=/home/me/.pgpass&user=me",
    "host=h user=me passfile=/home/me/.pgpass", "sqlite:///a:b", "postgresql://me@h/db?user=a@b",
]  # fmt: skip


@pytest.mark.parametrize(("url", "shown"), HIDES)
def test_passwords_are_hidden(url: str, shown: str) -> None:
    assert hide_passwords(url) == shown
    assert hide_passwords(shown) == shown


@pytest.mark.parametrize("url", KEEPS)
def test_what_is_no_password_stays(url: str) -> None:
    assert hide_passwords(url) == url


@pytest.mark.parametrize(
    "url",
    [
        *(url for url, _ in HIDES if SECRET in url),
        "sqlite://me:s3cr3t@host/x.db", "sqlite:///x.db?password=s3cr3t",
        "sqlite+pysqlcipher://:s3cr3t@/x.db", "sqlite://me:s3cr3t@/:memory:",
        "sqlite:///signatures.npy?password=s3cr3t",
    ],
)  # fmt: skip
def test_a_refused_url_is_nowhere(
    url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    Index.create(tmp_path / "there.lshdb").close()
    for work in (
        lambda: Index.create(tmp_path / "a.lshdb", database=url),
        lambda: Index.open(tmp_path / "there.lshdb", database=url),
    ):
        with pytest.raises(ParameterError) as caught:
            work()
        error = caught.value
        said = "".join(traceback.format_exception(error)) + repr(error) + str(error.__dict__)
        assert SECRET not in said + caplog.text, said
    for path in tmp_path.rglob("*"):
        assert SECRET not in path.name
        assert path.is_dir() or SECRET.encode() not in path.read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["there.lshdb"]


@pytest.mark.sqlite("there is a URL already")
def test_a_url_in_index_toml_is_not_shown_either(tmp_path: Path) -> None:
    Index.create(tmp_path / "a.lshdb").close()
    toml = tmp_path / "a.lshdb" / "index.toml"
    toml.write_text(f'database = "postgresql://me:{SECRET}@h/d"\n' + toml.read_text())
    with pytest.raises(ParameterError) as caught:
        Index.open(tmp_path / "a.lshdb")
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "url", ["sqlite:///a\0b", "sqlite:///a?mode=ro", "sqlite:///", "sqlite://", "sqlite:a", "x", ""]
)
def test_urls_that_name_no_file(url: str, tmp_path: Path) -> None:
    with pytest.raises(ParameterError):
        Index.create(tmp_path / "a.lshdb", database=url)
    assert os.listdir(tmp_path) == []
