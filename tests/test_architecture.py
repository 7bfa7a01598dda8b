"""The rules of the house, by walking the imports and calls of every module."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import lshdb

PACKAGE = Path(lshdb.__file__).parent
PURE = ("shingling", "params", "kernel", "signatures")
PURE_MAY_IMPORT = {
    "__future__", "abc", "array", "collections", "dataclasses", "enum", "functools", "hashlib",
    "importlib", "itertools", "math", "mmap", "mmh3", "numpy", "numbers", "orjson", "re", "sys",
    "typing", "unicodedata", "urllib.parse", "warnings", "zlib",
}  # fmt: skip
HEAVY = {
    "sqlalchemy",
    "alembic",
    "rich",
    "pyarrow",
    "pandas",
    "matplotlib",
    "pyspark",
    "fastapi",
    "jinja2",
    "uvicorn",
    "prometheus_client",
}
DRIVERS = {"sqlite3", "psycopg"}

ROOMS = (
    "phases", "shingling", "params", "kernel", "signatures", "files", "disksort", "storage",
    "documents", "ingest", "search", "groups", "transient", "maintain", "exchange", "dataset",
    "spark", "advice", "pages", "report", "plot", "serve", "cli",
)  # fmt: skip
"""Each may import what stands before it, and the modules at the root but ``index``."""
ROOT_FILES = 11
SMALL = 80


@cache
def sources() -> dict[str, ast.Module]:
    """Every module by its path in the package."""
    return {
        path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text())
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def modules(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    for name, tree in sources().items():
        if not folders or name.startswith(folders):
            yield name, tree


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


def module_of(dotted: str) -> str | None:
    """The file that a dotted name is, if it is a module or a package of ours."""
    path = dotted.removeprefix("lshdb").lstrip(".").replace(".", "/")
    if (PACKAGE / f"{path}.pyi").exists():  # compiled
        return f"{path}.pyi"
    return next((one for one in (f"{path}.py", f"{path}/__init__.py") if one in sources()), None)


@cache
def graph(*, types: bool = False) -> dict[str, set[str]]:
    """Module to the modules that it imports, at once or late; for types too, if asked for.

    ``from lshdb.room import module`` is an arrow to the module, not to the room.
    """
    return {
        name: {target for target in _targets(tree, types=types) if target}
        for name, tree in modules()
    }


def _targets(tree: ast.AST, *, types: bool) -> Iterator[str | None]:
    for node in ast.iter_child_nodes(tree):
        if not types and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lshdb"):
            for alias in node.names:
                yield module_of(f"{node.module}.{alias.name}") or module_of(node.module or "")
        yield from _targets(node, types=types)


def room_of(name: str) -> str:
    """The room of a module; the root's is nothing."""
    return name.partition("/")[0] if "/" in name else ""


def cycles(arrows: dict[str, set[str]]) -> list[str]:
    """Modules that import each other, directly or by way of others."""
    return sorted(name for name in arrows if name in _reached(arrows, name))


def _reached(arrows: dict[str, set[str]], start: str) -> set[str]:
    reached: set[str] = set()
    todo = list(arrows[start])
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += arrows.get(name, ())
    return reached


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Not for types either."""
    assert not cycles(graph(types=True))
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c"]


def mutual(arrows: dict[str, set[str]], room: str) -> set[tuple[str, str]]:
    """Pairs of folders in a room that import each other."""
    pairs = {
        (name.split("/")[1], target.split("/")[1])
        for name, targets in arrows.items()
        for target in targets
        if name.startswith(f"{room}/") and target.startswith(f"{room}/")
        if name.count("/") > 1 and target.count("/") > 1
    }
    return {(here, there) for here, there in pairs if here < there and (there, here) in pairs}


def test_folders_in_a_room_do_not_import_each_other() -> None:
    for room in ROOMS:
        assert not mutual(graph(types=True), room), room
    both = {"a/b/c.py": {"a/d/e.py"}, "a/d/e.py": {"a/b/f.py"}}
    assert mutual(both, "a") == {("b", "d")} and not mutual(both, "b")


def upward(arrows: dict[str, set[str]]) -> list[str]:
    """Arrows between rooms that do not point downwards."""
    return [
        f"{name} -> {target}"
        for name, targets in arrows.items()
        for target in targets
        if (here := room_of(name)) != (there := room_of(target)) and here in ROOMS
        if (there and ROOMS.index(there) > ROOMS.index(here))
        or (target == "index.py" and here != "cli")
    ]


def test_arrows_between_rooms_point_downwards() -> None:
    assert not upward(graph())
    for_types = upward(graph(types=True))
    assert not [arrow for arrow in for_types if not arrow.endswith("index.py")]
    assert upward({"storage/tables/schema.py": {"search/query.py", "errors.py"}})
    assert upward({"storage/tables/schema.py": {"index.py"}}) and not upward(
        {"cli/add.py": {"index.py"}}
    )


def test_the_root_has_few_files_and_every_room_is_known() -> None:
    names = list(sources())
    assert len([name for name in names if "/" not in name]) <= ROOT_FILES
    assert {room_of(name) for name in names} == {"", *ROOMS}


def test_no_two_modules_have_one_name() -> None:
    """But for commands, each of which is in the file of its name."""
    counts = Counter(
        name.rpartition("/")[2]
        for name in sources()
        if not name.endswith("__init__.py") and room_of(name) != "cli"
    )
    assert not [name for name, count in counts.items() if count > 1]


def repeated(trees: Iterable[ast.AST]) -> list[str]:
    """Names of classes that several modules define."""
    counts = Counter(
        node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    )
    return sorted(name for name, count in counts.items() if count > 1)


def test_no_two_classes_have_one_name() -> None:
    assert not repeated(sources().values())
    assert repeated([ast.parse("class A: pass"), ast.parse("def f():\n  class A: pass")]) == ["A"]


def test_a_small_module_with_one_importer_says_why_it_is_alone() -> None:
    importers = Counter(target for targets in graph().values() for target in targets)
    for name, tree in modules():
        lines = len((PACKAGE / name).read_text().splitlines())
        if lines < SMALL and importers[name] == 1 and not name.endswith("__init__.py"):
            assert re.search("(file|module) of its own", ast.get_docstring(tree) or ""), name


def test_pure_stages_import_nothing_that_touches_the_world() -> None:
    allowed = tuple(f"lshdb.{one}" for one in (*PURE, "arguments", "arrays", "cancel", "errors"))
    for name, tree in modules(*(f"{room}/" for room in PURE)):
        for imported in imports(tree):
            if imported.startswith("lshdb"):
                assert imported.startswith(allowed), (name, imported)
            else:
                names = {imported, imported.split(".")[0], imported.rpartition(".")[0]}
                reads_rows = name.startswith("kernel/reference_") and imported == "os"
                assert names & PURE_MAY_IMPORT or reads_rows, (name, imported)
        calls = {
            node.func.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }  # fmt: skip
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
        # The scratch file of a sort is SQLite's, whatever database holds the index.
        if not name.startswith("storage/dialects/") and name != "disksort/sorted_rows.py":
            for imported in imports(tree):
                assert imported.split(".")[0] not in DRIVERS, (name, imported)


STATEMENT = re.compile(
    r"\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|DROP|ALTER|WITH)\b.*\b(FROM|INTO|SET|TABLE|VIEW)\b",
    re.DOTALL,
)
RUNNING_SQL = {"execute", "execute_many", "executemany", "executescript"}
OWN_DATABASES = ("disksort/sorted_rows.py", "exchange/datasette_plugin.py")
"""A scratch file of its own, and Datasette's connections."""


def statements(tree: ast.AST) -> list[str]:
    """Statements of SQL in a module, and calls that run one; examples in prose are neither."""
    texts = [
        ast.unparse(node).removeprefix("f")[1:]
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        or (isinstance(node, ast.Constant) and isinstance(node.value, str))
    ]
    calls = [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    hits = [text for text in texts if STATEMENT.match(text)]
    return hits + [call for call in calls if call.rpartition(".")[2] in RUNNING_SQL]


def test_statements_of_sql_stand_in_storage_alone() -> None:
    for name, tree in modules():
        if not name.startswith("storage/") and name != OWN_DATABASES[0]:
            hits = statements(tree)
            if name == OWN_DATABASES[1]:
                hits = [hit for hit in hits if not hit.endswith(".execute")]
            assert not hits, (name, hits)


def test_a_statement_of_sql_is_seen() -> None:
    for bad in (
        "a = 'SELECT key FROM document'", "a = f'DELETE FROM {table}'", "snapshot.execute(words)",
        "sql = ('SELECT key '\n 'FROM document')",
    ):  # fmt: skip
        assert statements(ast.parse(bad)), bad
    assert not statements(ast.parse("hint = 'lshdb sql INDEX \"SELECT key FROM document\"'"))


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
    late = {
        "storage/tables/schema.py", "storage/tables/band_schema.py", "cli/_table.py",
        "cli/_parquet.py", "cli/_advice.py",
    }  # fmt: skip
    for name, tree in modules():
        is_late = name.startswith("serve/")
        is_late |= name.startswith("spark/") and name != "spark/__init__.py"
        if name not in late and not is_late:
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


def test_the_page_on_architecture_is_short() -> None:
    lines = (PACKAGE.parent / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 150
    assert not [line for line in lines if len(line) > 120]
