"""An open index -> answers over HTTP: JSON and pages, read-only.

``application.py`` has the routes; ``answers.py`` says what goes over the wire; ``workers.py`` asks
the index in threads, a bounded number at once and for a bounded time. ``guard.py`` stands before
all of it: who may ask, how much may be sent, what is counted. ``server.py`` listens.

Nothing here writes to an index. Needs the extra ``lshdb[serve]``.
"""

from __future__ import annotations

from lshdb.serve.application import make_application
from lshdb.serve.guard import Limits
from lshdb.serve.server import is_loopback, run_server

__all__ = ["Limits", "is_loopback", "make_application", "run_server"]
