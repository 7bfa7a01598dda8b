"""The notebooks run from top to bottom, and every picture of them is one.

    python -m tests.docs.test_notebook

writes the outputs of a run into each notebook.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests import spark_session

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOK, ON_SPARK = FOLDER / "deduplicate.ipynb", FOLDER / "on-spark.ipynb"
PROGRESS = FOLDER / "progress.ipynb"


def run(folder: Path, original: Path = NOTEBOOK) -> Any:
    """Run a copy of a notebook in an empty folder, and return it."""
    import nbformat
    from nbclient import NotebookClient

    copy = Path(shutil.copy(original, folder))
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


def said_in(notebook: Any) -> str:
    """What its cells have printed."""
    return "".join(
        output.get("text", "")
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.get("name") != "stderr"
    )


def test_the_notebook_runs(tmp_path: Path) -> None:
    import nbformat

    made = run(tmp_path)
    asked = sum(cell.source.count("show(plot.") for cell in made.cells)
    assert len(pictures(made)) == asked == 7
    assert all("<svg" in one for one in pictures(made))
    said = said_in(made)
    assert "the promise is kept: True" in said
    assert "Traceback" not in said
    assert (tmp_path / "report.html").stat().st_size > 100_000
    stored = nbformat.read(NOTEBOOK, as_version=4)
    assert len(pictures(stored)) == asked, "run python -m tests.docs.test_notebook"


def pages(notebook: Any) -> list[str]:
    """The HTML that its cells show, in order."""
    return [
        output.data["text/html"]
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "text/html" in output.get("data", {})
    ]


def test_the_notebook_of_bars_and_previews_runs(tmp_path: Path) -> None:
    """Bars are left at their end; every answer shows its first rows."""
    import nbformat

    for notebook in (run(tmp_path, PROGRESS), nbformat.read(PROGRESS, as_version=4)):
        said, shown = said_in(notebook), pages(notebook)
        assert said == "360 texts\n60 pairs\ncancelled, 360 documents\n"
        bars = [page for page in shown if "<progress" in page]
        assert len(bars) == 3 and all("100 %" in bar for bar in bars)
        assert "news · 360 documents · 100 %" in bars[0] and "60 pairs" in bars[1]
        captions = [page.partition("<caption>")[2].partition("(")[0] for page in shown]
        assert [name for name in captions if name] == [
            "Index", "PairSearch", "Clusters", "Explanation", "IndexStats", "DeduplicatedTable",
            "Index",
        ]  # fmt: skip
        assert "closed" in shown[-1]


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.long
def test_the_notebook_on_spark_runs(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """In the session of the other tests."""
    import nbformat

    monkeypatch.chdir(tmp_path)
    stored = nbformat.read(ON_SPARK, as_version=4)
    names: dict[str, Any] = {"__name__": "notebook"}
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    try:
        for cell in stored.cells:
            if cell.cell_type == "code":
                exec(compile(cell.source, ON_SPARK.name, "exec"), names)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", partitions)
    said = capsys.readouterr().out
    for one in (said, said_in(stored)):
        n_pairs = one.partition(" pairs\n")[0].splitlines()[-1]
        assert int(n_pairs.replace(",", "")) > 20
        lines = one.splitlines()
        assert lines[-2:] == [f"{n_pairs} pairs", "True"]  # on one machine, and back
        assert f", {n_pairs} in all" in one
        assert "[]" in lines  # nothing is wrong with the dataset
        assert "Traceback" not in one


if __name__ == "__main__":
    import nbformat

    for original in (NOTEBOOK, ON_SPARK, PROGRESS):
        with tempfile.TemporaryDirectory() as name:
            os.environ["JAVA_HOME"] = str(spark_session.java_home(Path(name)))
            os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
            done = run(Path(name), original)
        for cell in done.cells:
            cell.metadata.pop("execution", None)
            cell.pop("id", None)
            if original is ON_SPARK and cell.cell_type == "code":  # what Java says as it starts
                cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]
        pathless = nbformat.writes(done).replace(str(Path(name).resolve()), "/home/me")
        original.write_text(pathless + "\n")
