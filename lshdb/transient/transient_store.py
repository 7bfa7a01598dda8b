"""An index that lasts for one question: what is open of it, and where its parts lie."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from pathlib import Path

from lshdb.errors import LshdbError
from lshdb.files.process import Process
from lshdb.files.temporary_folder import TemporaryFolder
from lshdb.params.index_params import IndexParams
from lshdb.signatures.band_orders import BandOrders
from lshdb.storage.orders.frozen import OrderFolder
from lshdb.storage.rowfiles.generations import FIRST_NAME, Generation
from lshdb.storage.rowfiles.layouts import row_layouts
from lshdb.transient.transient_state import DocumentColumns, TransientState

__all__ = ["TransientStore"]


class TransientStore:
    """The parts of the index; made empty, filled once, and gone when it is closed or forgotten.

    Parameters
    ----------
    params : IndexParams
    """

    def __init__(self, params: IndexParams) -> None:
        self.params = params
        self._folder = TemporaryFolder()
        self.path = self._folder.path
        layouts = row_layouts(params)
        self.generation = Generation(self.path, FIRST_NAME, layouts, is_durable=False)
        self.generation.create()
        self.orders = OrderFolder(self.path, BandOrders(params.cut))
        self.documents = DocumentColumns(self.path)
        weakref.finalize(self, self.documents.close)
        self.process = Process()
        self.state: TransientState | None = None
        self.is_closed = self.is_filled = False

    @contextlib.contextmanager
    def reading(self) -> Iterator[TransientState]:
        """Return its one state."""
        self.require_open()
        if self.state is None:
            raise LshdbError("nothing was added yet")
        yield self.state

    def answering(
        self, keys: bytes | bytearray, *, with_bodies: bool
    ) -> contextlib.AbstractContextManager[TransientState]:
        """Return its one state."""
        return self.reading()

    @property
    def n_documents(self) -> int:
        """How many documents came in."""
        return 0 if self.state is None else self.state.next_doc_id - 1

    def refuse_inside(self, path: Path) -> None:
        """Do nothing: nobody names a file in there."""

    def require_open(self) -> None:
        """Raise LshdbError if it is closed."""
        if self.is_closed:
            raise LshdbError("the index is closed", hint="open it again")

    def close(self) -> None:
        """Remove all of it."""
        self.is_closed = True
        self.documents.close()
        self._folder.close()
