"""The rooms: imports point up this list only."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import g2netpl

ROOT = Path(g2netpl.__file__).parent
ROOMS = (
    "utils",
    "labels",
    "images",
    "core",
    "runs",
    "training",
    "experiments",
    "review",
    "reports",
    "commands",
)


def room(name):
    """Which room a module is in; the door is below all of them."""
    first = name.partition(".")[0]
    return ROOMS.index(first) if first in ROOMS else len(ROOMS)


def modules():
    for path in sorted(ROOT.rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if name != "__init__":
            yield name, ast.parse(path.read_text(encoding="utf-8"))


NAMES = {name for name, _ in modules()}


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("g2netpl"):
            base = (node.module or "").removeprefix("g2netpl").lstrip(".")
            for alias in node.names:
                inner = f"{base}.{alias.name}".lstrip(".")
                yield inner if inner in NAMES else base
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("g2netpl."):
                    yield alias.name.removeprefix("g2netpl.")


def test_ls_tells_the_rooms():
    there = {path.name for path in ROOT.iterdir() if not path.name.startswith("__pycache__")}
    assert there == {*ROOMS, "__init__.py", "__main__.py", "cli.py", "py.typed"}


@pytest.mark.parametrize("name", ROOMS)
def test_a_room_says_what_lives_there(name):
    about = ast.get_docstring(ast.parse((ROOT / name / "__init__.py").read_text(encoding="utf-8")))
    assert about is not None
    assert len(about.splitlines()) >= 3


@pytest.mark.parametrize(("name", "tree"), list(modules()), ids=[name for name, _ in modules()])
def test_imports_point_up(name, tree):
    for other in imported(tree):
        if other:
            assert room(other) <= room(name), f"{name} imports {other}"


def test_nobody_imports_in_a_circle():
    """Imports for type checkers apart."""
    arrows = {}
    for name, tree in modules():
        guards = [node for node in ast.walk(tree) if isinstance(node, ast.If)]
        for guard in guards:
            if ast.unparse(guard.test) == "TYPE_CHECKING":
                guard.body = [ast.Pass()]
        arrows[name] = set(imported(tree)) - {name, ""}
    assert list(TopologicalSorter(arrows).static_order())


def test_the_training_loop_knows_no_method_and_nobody_imports_the_command_line():
    arrows = {name: set(imported(tree)) for name, tree in modules()}
    assert arrows["core.algorithm"] == set()
    assert [name for name in arrows if "cli" in arrows[name]] == ["__main__"]


def test_a_person_is_spoken_to_through_one_door():
    """`console` escapes control characters: nobody else writes to a terminal."""
    for name, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and name != "utils.console":
                assert ast.unparse(node.func) not in ("print", "input"), name
            if isinstance(node, ast.Attribute) and name != "utils.console":
                assert ast.unparse(node) not in ("sys.stdout", "sys.stderr"), name
            if isinstance(node, ast.ImportFrom) and name != "utils.console":
                assert node.module not in ("rich", "rich.console"), name


def test_nothing_is_pickled():
    for _, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("torch.load", "np.load"):
                keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
                assert (
                    keywords.get("weights_only") == "True"
                    or keywords.get("allow_pickle") == "False"
                )
