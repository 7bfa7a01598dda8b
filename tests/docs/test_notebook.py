"""The notebook runs from top to bottom, and every picture of it is one.

    python -m tests.docs.test_notebook

writes the outputs of a run into the notebook.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebooks" / "deduplicate.ipynb"


def run(folder: Path) -> Any:
    """Run a copy of the notebook in an empty folder, and return it."""
    import nbformat
    from nbclient import NotebookClient

    copy = Path(shutil.copy(NOTEBOOK, folder))
    notebook = nbformat.read(copy, as_version=4)
    client = NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    return client.execute()


def pictures(notebook: Any) -> list[str]:
    return [
        output.data["image/svg+xml"]
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "image/svg+xml" in output.get("data", {})
    ]


def test_the_notebook_runs(tmp_path: Path) -> None:
    import nbformat

    made = run(tmp_path)
    asked = sum(cell.source.count("show(plot.") for cell in made.cells)
    assert len(pictures(made)) == asked == 7
    assert all("<svg" in one for one in pictures(made))
    said = "".join(
        output.get("text", "")
        for cell in made.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    )
    assert "the promise is kept: True" in said
    assert "Traceback" not in said
    assert (tmp_path / "report.html").stat().st_size > 100_000
    stored = nbformat.read(NOTEBOOK, as_version=4)
    assert len(pictures(stored)) == asked, "run python -m tests.docs.test_notebook"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        import nbformat

        done = run(Path(name))
    for cell in done.cells:
        cell.metadata.pop("execution", None)
        cell.pop("id", None)
    nbformat.write(done, NOTEBOOK)
