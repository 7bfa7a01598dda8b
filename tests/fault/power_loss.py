"""What a disk may hold after a power loss: a recorded writer's calls, replayed and cut off.

The model, each part with why it is legal (POSIX, and the man pages of fsync and rename):

* The loss comes between any two calls that change something.
* A file's bytes are durable as of its last fsync or fdatasync; both make its data and its size
  durable. What was written since is in the page cache, which is written back in any order, at any
  time: every sector of 512 bytes holds what it held at the last sync or after any one of the writes
  since, whatever the other sectors hold. A sector itself is written whole. (A page that is written
  back holds all writes up to then, so a sector never has a later write without an earlier one.)
* A file's size is the one at the last sync or after any one of the calls since: journals keep the
  order of such changes, and sizes need not go with data. Bytes of a grown file whose data did not
  come are zero. Blocks that a truncation gave up are not written any more: where the truncation is
  lost, so are later writes to what it cut off; where it is durable, what it cut off is gone.
* A name (made, renamed, removed) is durable after an fsync of its directory; an fsync of the file
  does not make it so. Of the changes since then, the first few are durable and the rest are not:
  journals keep their order within a directory. Directories are independent. A rename is one change.
* The contents of ``lock`` mean nothing, and SQLite's ``-shm`` is made anew after a crash (it is
  shared memory): the one is never varied, and the other never there.

Left out, as disks that lie are beyond any program: synced data that are lost, sectors half written,
bytes changed where nobody wrote.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import random
import struct
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.fault.soundness import faults_of, faults_of_export
from tests.fault.steps import BLOCK_ROWS, EXPORTED, INDEX, State
from tests.fault.writer import (
    CHANGING,
    CREATE,
    LINK,
    MARK,
    MKDIR,
    RENAME,
    RMDIR,
    SYNC,
    TRUNCATE,
    UNLINK,
    WRITE,
    Expected,
)

__all__ = ["OLD_BLOCK_ROWS", "Call", "Disk", "Loss", "Recording", "broken_by", "losses", "read_log"]

SECTOR = 512
OLD_BLOCK_ROWS = 1024
"""Of the golden indexes."""
_HEAD = struct.Struct("<IIQqQ")
_EXCHANGE = 2


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the log: ``data`` is what was written, a new name, or the text of a mark.

    ``place`` is an offset or a size; of a renaming, its flags.
    """

    kind: int
    path: str
    inode: int
    place: int
    data: bytes


def read_log(path: Path) -> list[Call]:
    """The calls of a log; ValueError for a call that the model does not know."""
    data = path.read_bytes()
    calls, at = [], 0
    while at < len(data):
        kind, path_bytes, inode, place, n = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        name, body = data[at : at + path_bytes].decode(), data[at + path_bytes :][:n]
        at += path_bytes + n
        if not kind & (CHANGING | MARK):
            raise ValueError(f"the replay does not know the call {body.decode()} on {name}")
        calls.append(Call(kind, name, inode, place, body))
    return calls


@dataclass(slots=True)
class _File:
    """A file: as of the last sync, now, and the calls between."""

    durable: bytes = b""
    now: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)
    """(offset, data) of a write, (size, None) of a truncation."""

    def apply(self, place: int, data: bytes | None) -> None:
        self.pending.append((place, data))
        _apply(self.now, place, data)

    def sync(self) -> None:
        self.durable, self.pending = bytes(self.now), []


def _apply(content: bytearray, place: int, data: bytes | None) -> None:
    if data is None:
        del content[place:]
        content.extend(bytes(place - len(content)))
    else:
        content.extend(bytes(max(0, place - len(content))))
        content[place : place + len(data)] = data


@dataclass(slots=True)
class _Directory:
    """A directory's names: as of the last sync, now, and the changes between."""

    durable: dict[str, int] = field(default_factory=dict)
    now: dict[str, int] = field(default_factory=dict)
    pending: list[dict[str, int | None]] = field(default_factory=list)

    def apply(self, change: dict[str, int | None]) -> None:
        self.pending.append(change)
        _rename(self.now, change)

    def sync(self) -> None:
        self.durable, self.pending = dict(self.now), []


def _rename(names: dict[str, int], change: dict[str, int | None]) -> None:
    for name, inode in change.items():
        if inode is None:
            names.pop(name, None)
        else:
            names[name] = inode


class Disk:
    """Files and directories below one folder, as calls come.

    Parameters
    ----------
    root : Path
        The folder; what it holds now is durable.
    """

    def __init__(self, root: Path) -> None:
        self.root = os.path.realpath(root)
        self.nodes: dict[int, _File | _Directory] = {}
        self.top = self._load(Path(self.root))

    def _load(self, path: Path) -> int:
        inode = path.stat().st_ino
        if path.is_dir():
            names = {one.name: self._load(one) for one in path.iterdir()}
            self.nodes[inode] = _Directory(dict(names), dict(names))
        else:
            data = path.read_bytes()
            self.nodes[inode] = _File(data, bytearray(data))
        return inode

    def _place(self, path: str) -> tuple[_Directory, str]:
        """The directory in which a name lies now, and the name."""
        node = self.nodes[self.top]
        *folders, name = path.removeprefix(self.root).strip("/").split("/")
        for folder in folders:
            assert isinstance(node, _Directory)
            node = self.nodes[node.now[folder]]
        assert isinstance(node, _Directory)
        return node, name

    def apply(self, call: Call) -> None:
        """Take in one call."""
        if call.path.endswith(" (deleted)") and call.inode not in self.nodes:
            return  # a temporary file that never had a name: nothing of it is there after a loss
        if call.kind in (WRITE, TRUNCATE):
            node = self.nodes[call.inode]
            assert isinstance(node, _File)
            node.apply(call.place, call.data if call.kind == WRITE else None)
        elif call.kind == SYNC:
            self.nodes[call.inode].sync()
        elif call.kind in (CREATE, MKDIR):
            folder, name = self._place(call.path)
            self.nodes[call.inode] = _File() if call.kind == CREATE else _Directory()
            folder.apply({name: call.inode})
        elif call.kind == LINK:
            folder, name = self._place(call.path)
            folder.apply({name: call.inode})
        elif call.kind in (UNLINK, RMDIR):
            folder, name = self._place(call.path)
            folder.apply({name: None})
        elif call.kind == RENAME:
            folder, name = self._place(call.path)
            other, new = self._place(call.data.decode())
            if call.place:  # two names change places
                assert call.place == _EXCHANGE and other is folder
                folder.apply({name: folder.now[new], new: folder.now[name]})
            elif other is folder:
                folder.apply({name: None, new: folder.now[name]})
            else:  # each directory is durable for itself: it may be in both, or in none
                other.apply({new: folder.now[name]})
                folder.apply({name: None})

    def crashed(self, rng: random.Random, most: float) -> dict[str, bytes | None]:
        """What the disk may hold after a loss now: path to bytes, or None for a directory.

        Parameters
        ----------
        rng : random.Random
        most : float
            0 for nothing but what is durable, 1 for all there is, between for a random choice.
        """
        found: dict[str, bytes | None] = {}
        self._walk(self.top, "", rng, most, found)
        return found

    def _walk(
        self, inode: int, path: str, rng: random.Random, most: float, found: dict[str, bytes | None]
    ) -> None:
        node = self.nodes[inode]
        if isinstance(node, _File):
            if path.endswith("/lock") and not node.durable:  # of an index in its place
                found[path] = b""
            elif not path.endswith("-shm"):
                found[path] = _image(node, rng, most)
            return
        if path:
            found[path] = None
        names = dict(node.durable)
        kept = round(most) if most in (0, 1) else rng.choice((0, 1, 1, rng.random()))
        for change in node.pending[: round(kept * len(node.pending))]:
            _rename(names, change)
        for name in sorted(names):
            self._walk(names[name], f"{path}/{name}", rng, most, found)


def _image(file: _File, rng: random.Random, most: float) -> bytes:
    """One of the contents that a file may have after a loss."""
    n = len(file.pending)
    policy = "all" if most == 1 else "none" if most == 0 else rng.choice(_POLICIES)
    if not n or policy == "none":
        return file.durable
    if policy == "all":
        return bytes(file.now)
    sizes = [len(file.durable)]
    for place, data in file.pending:
        sizes.append(place if data is None else max(sizes[-1], place + len(data)))
    last = n if rng.random() < 0.6 else rng.randrange(n + 1)
    until = _versions(file, last, rng, policy)
    content, image = bytearray(file.durable), bytearray(max(sizes))
    image[: len(content)] = content
    for number, (place, data) in enumerate(file.pending, 1):
        _apply(content, place, data)
        for sector in until.get(number, ()):
            part = content[sector * SECTOR :][:SECTOR]
            image[sector * SECTOR : (sector + 1) * SECTOR] = part.ljust(SECTOR, b"\0")
    return bytes(image[: sizes[last]].ljust(sizes[last], b"\0"))


_POLICIES = ("all", "none", "prefix", "prefix", "lost", "lost", "kept", "sectors", "torn")


def _versions(file: _File, last: int, rng: random.Random, policy: str) -> dict[int, list[int]]:
    """Sectors by the number of the call after which they were written back.

    ``last`` is the number of calls whose change of size is durable.
    """
    touched: dict[int, list[int]] = {}
    cuts = [(number, size) for number, (size, data) in enumerate(file.pending, 1) if data is None]
    for number, (place, data) in enumerate(file.pending, 1):
        if data:
            for sector in range(place // SECTOR, (place + len(data) - 1) // SECTOR + 1):
                touched.setdefault(sector, []).append(number)
    if cuts:
        for sector in range(-(-len(file.durable) // SECTOR)):
            touched.setdefault(sector, [])
    n = len(file.pending)
    when = rng.randrange(n + 1)
    rate = rng.choice((0.1, 0.5, 0.9))
    lost = {number for number in range(1, n + 1) if rng.random() < rate}
    if policy == "kept":
        lost = set(range(1, n + 1)) - {when}
    found: dict[int, list[int]] = {}
    for sector, writes in touched.items():
        end = (sector + 1) * SECTOR
        low = max((number for number, size in cuts if size < end and number <= last), default=0)
        high = min((number - 1 for number, size in cuts if size < end and number > last), default=n)
        if policy == "prefix":
            until = when
        elif policy == "torn":
            until = when if rng.random() < 0.5 else when - 1
        elif policy == "sectors":
            until = rng.choice([0, *writes, n])
        else:
            until = next((number - 1 for number in writes if number in lost and number > low), n)
        found.setdefault(min(max(until, low), high), []).append(sector)
    return found


@dataclass(frozen=True, slots=True)
class Recording:
    """What a writer did.

    Attributes
    ----------
    name : str
    disk : Disk
        As it was when the recording began.
    documents : State
        What the index held then.
    calls : list of Call
    is_old : bool
        Whether the index had an older schema then, and the first commit is its upgrade.
    is_damaged : bool
        Whether the index was damaged then, and the first commit is its repair.
    """

    name: str
    disk: Disk
    documents: State
    calls: list[Call]
    is_old: bool = False
    is_damaged: bool = False


@dataclass(frozen=True, slots=True)
class Loss:
    """A state of the disk after a power loss, and what the index may hold in it.

    Attributes
    ----------
    how : str
        What makes this state again.
    held : dict
        Path to bytes, or None for a directory.
    allowed : list of State
    may_be_old : bool
        Whether the upgrade, or the repair, was not acknowledged yet.
    digest : bytes
        Equal for equal states of which the same is expected.
    """

    how: str
    held: dict[str, bytes | None]
    allowed: list[State]
    may_be_old: bool
    digest: bytes


def losses(recording: Recording, seed: int, per_call: float) -> Iterator[Loss]:
    """Power losses after every call, each distinct state once.

    Parameters
    ----------
    recording : Recording
    seed : int
    per_call : float
        Random states after each call, on an average. About as often the two states are tried
        that are not random: nothing is there but what is durable, and everything.
    """
    disk, expected = copy.deepcopy(recording.disk), Expected(recording.documents)
    may_be_old = recording.is_old or recording.is_damaged
    seen: set[bytes] = set()
    for number, call in enumerate(recording.calls):
        if call.kind == MARK:
            kind, what = json.loads(call.data)
            expected.mark(kind, what)
            may_be_old &= kind != "done"
        else:
            disk.apply(call)
        rng = random.Random(f"{seed} {number}")
        few = int(per_call) + (rng.random() < per_call % 1)
        fixed = [0.0, 1.0] if rng.random() < per_call else []
        for trial, most in enumerate([*fixed, *[0.5] * few]):
            held = disk.crashed(random.Random(f"{seed} {number} {trial}"), most)
            digest = _digest(held, expected.allowed, may_be_old)
            if digest not in seen:
                seen.add(digest)
                how = f"{recording.name}, seed {seed}, after call {number}, trial {trial}"
                yield Loss(how, held, expected.allowed, may_be_old, digest)


def _digest(held: dict[str, bytes | None], allowed: list[State], may_be_old: bool) -> bytes:
    digest = hashlib.blake2b(json.dumps([allowed, may_be_old]).encode(), digest_size=16)
    for path, data in held.items():
        digest.update(repr((path, None if data is None else len(data))).encode())
        digest.update(data or b"")
    return digest.digest()


def materialise(held: dict[str, bytes | None], folder: Path) -> None:
    """Make the files; the folder must exist."""
    for path, data in held.items():
        place = folder / path.lstrip("/")
        if data is None:
            place.mkdir()
        else:
            place.write_bytes(data)


def broken_by(
    recording: Recording, seed: int, per_call: float, *, enough: int | None = None
) -> tuple[set[bytes], list[str]]:
    """Try power losses; what breaks the index is said, with how to make it again.

    Parameters
    ----------
    recording : Recording
    seed, per_call
        As for :func:`losses`.
    enough : int, optional
        Stop after so many.

    Returns
    -------
    seen : set of bytes
        Digests of the states that were tried.
    found : list of str
    """
    seen: set[bytes] = set()
    exports = {frozenset[tuple[str, bytes | None]]()}
    found: list[str] = []
    for number, loss in enumerate(losses(recording, seed, per_call)):
        seen.add(loss.digest)
        with tempfile.TemporaryDirectory() as folder:
            materialise(loss.held, Path(folder))
            faults = faults_of(
                Path(folder) / INDEX,
                loss.allowed,
                asks=number % 25 == 5,
                writes=number % 20 == 12,
                may_be_old=loss.may_be_old and recording.is_old,
                may_be_damaged=loss.may_be_old and recording.is_damaged,
                block_rows=OLD_BLOCK_ROWS if recording.is_old else BLOCK_ROWS,
            )
            of_export = (one for one in loss.held.items() if one[0].startswith(f"/{EXPORTED}"))
            export = frozenset(of_export)
            if export not in exports:
                exports.add(export)
                faults += faults_of_export(Path(folder))
        if faults:
            found.append(f"{loss.how}: " + "; ".join(faults[:3]))
            if len(found) == enough:
                break
    return seen, found
