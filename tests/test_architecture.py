"""The rules of the house, by walking the imports and calls of every module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import lshdb

PACKAGE = Path(lshdb.__file__).parent
PURE_MAY_IMPORT = {
    "__future__", "abc", "collections", "dataclasses", "enum", "functools", "itertools", "math",
    "mmh3", "numpy", "numbers", "re", "typing", "unicodedata", "urllib.parse", "warnings",
}  # fmt: skip
HEAVY = {"sqlalchemy", "alembic", "rich", "pyarrow", "matplotlib"}
DRIVERS = {"sqlite3", "psycopg"}


def modules(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not folders or name.startswith(folders):
            yield name, ast.parse(path.read_text())


def imports(tree: ast.AST, *, at_import_time: bool = False) -> Iterator[str]:
    """Names of imported modules; those under TYPE_CHECKING are left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if at_import_time and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        yield from imports(node, at_import_time=at_import_time)


def test_pure_stages_import_nothing_that_touches_the_world() -> None:
    pure = ("shingling/", "signatures/", "banding.py", "params.py", "choosing.py", "tuning.py")
    allowed = (
        "lshdb.arrays",
        "lshdb.shingling",
        "lshdb.signatures",
        "lshdb.banding",
        "lshdb.cancel",
        "lshdb.errors",
        "lshdb.params",
        "lshdb.choosing",
        "lshdb.tuning",
        "lshdb.values",
    )
    for name, tree in modules(*pure):
        for imported in imports(tree):
            if imported.startswith("lshdb"):
                assert imported.startswith(allowed), (name, imported)
            else:
                names = {imported, imported.split(".")[0], imported.rpartition(".")[0]}
                assert names & PURE_MAY_IMPORT, (name, imported)
        calls = {
            node.func.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert not calls & {"open", "print", "input"}, name
        assert "np.random" not in ast.unparse(tree), name


def test_storage_knows_no_stage() -> None:
    forbidden = (
        "lshdb.shingling",
        "lshdb.signatures",
        "lshdb.search",
        "lshdb.documents",
        "lshdb.cli",
    )
    for name, tree in modules("storage/"):
        for imported in imports(tree):
            assert not imported.startswith(forbidden), (name, imported)


def test_only_dialects_import_a_database_driver() -> None:
    for name, tree in modules():
        if not name.startswith("storage/dialects/"):
            for imported in imports(tree):
                assert imported.split(".")[0] not in DRIVERS, (name, imported)


def test_commands_use_public_names_and_no_arrays() -> None:
    for name, tree in modules("cli/"):
        for imported in imports(tree):
            assert imported.split(".")[0] not in {"numpy", *DRIVERS, "sqlalchemy"}, (name, imported)
            if imported.startswith("lshdb.") and not imported.startswith("lshdb.cli"):
                public = imported.removeprefix("lshdb.").split(".")[-1]
                assert not public.startswith("_") or public == "__version__", (name, imported)
                assert not imported.startswith(("lshdb.storage", "lshdb.search")), (name, imported)


def test_only_one_module_prints() -> None:
    for name, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and name != "cli/_output.py":
                called = ast.unparse(node.func)
                assert called not in {"print", "click.echo", "click.secho", "echo"}, (name, called)


def test_heavy_imports_wait_until_they_are_needed() -> None:
    """Only modules that write, which are imported late themselves, may import them at the top."""
    late = {"storage/schema.py", "cli/_table.py", "cli/_progress.py"}
    for name, tree in modules():
        if name not in late:
            for imported in imports(tree, at_import_time=True):
                assert imported.split(".")[0] not in HEAVY, (name, imported)


def test_no_assert_checks_data() -> None:
    for name, tree in modules():
        assert not any(isinstance(node, ast.Assert) for node in ast.walk(tree)), name


UNPICKLING = {
    "pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "yaml",
}  # fmt: skip
RUNNING = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "runpy.run_path"}
LOADING = {"np.load", "numpy.load", "np.lib.format.read_array", "np.save", "np.lib.npyio.NpzFile"}


def made_into_code(tree: ast.AST) -> list[str]:
    """Whatever of a module could make code, or objects with code, out of bytes that it reads."""
    found = [name for name in imports(tree) if name.split(".")[0] in UNPICKLING]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            safe = any(
                keyword.arg == "allow_pickle"
                and isinstance(keyword.value, ast.Constant)
                and keyword.value.value is False
                for keyword in node.keywords
            )
            if called in RUNNING or (called in LOADING and not safe):
                found.append(ast.unparse(node))
    return found


def test_no_bytes_become_code() -> None:
    for name, tree in modules():
        assert not made_into_code(tree), name
    for path in (PACKAGE.parent / "migrations").rglob("*.py"):
        assert not made_into_code(ast.parse(path.read_text())), path


def test_what_would_become_code_is_noticed() -> None:
    for bad in (
        "import pickle", "from pickle import loads", "def f():\n    import marshal", "eval('1')",
        "np.load(path)", "np.load(path, allow_pickle=True)", "np.load(path, allow_pickle=flag)",
    ):  # fmt: skip
        assert made_into_code(ast.parse(bad)), bad
    assert not made_into_code(ast.parse("np.load(path, allow_pickle=False); re.compile('a')"))


def test_every_file_says_what_it_is_for() -> None:
    for name, tree in modules():
        assert ast.get_docstring(tree), name
