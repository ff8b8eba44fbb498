"""The import arrows: data flows down this list, imports point up it."""

import ast
from pathlib import Path

import pytest

import g2netpl

ROOT = Path(g2netpl.__file__).parent
ORDER = [
    "errors",
    "terminal",
    "console",
    "launched",
    "disk",
    "locks",
    "aside",
    "memory",
    "arrays",
    "interrupts",
    "page",
    "pictures",
    "options",
    "entries",
    "inside",
    "spelling",
    "labels",
    "drawing",
    "settings",
    "resize",
    "jpeg",
    "images",
    "picture_prints",
    "image_cache",
    "formats.problems",
    "formats.text",
    "formats.reading",
    "formats.json_file",
    "formats.published",
    "formats.table",
    "formats.collector",
    "formats.tags",
    "formats.parquet",
    "formats.*",
    "formats.layouts",
    "formats",
    "look_alikes",
    "checking",
    "check_page",
    "views",
    "observed",
    "teams",
    "decoding",
    "workers",
    "data",
    "scenes",
    "lite0",
    "network",
    "boostlu",
    "compiling",
    "foreign_weights",
    "features",
    "feature_cache",
    "costs",
    "snapshots",
    "store",
    "mapped_store",
    "shelf",
    "game",
    "equations",
    "players",
    "players.soft_options",
    "players.part_weights",
    "players.*",
    "methods",
    "catalogue",
    "evaluation",
    "predicting",
    "equilibrium",
    "optimizers",
    "steps",
    "fitting",
    "expected",
    "decisions",
    "judgement",
    "score_file",
    "onnx_file",
    "bundle",
    "checkpoints",
    "keeping",
    "sinks",
    "trackers",
    "config",
    "tracking",
    "run_files",
    "divergence",
    "review_log",
    "claims",
    "runs",
    "material",
    "export",
    "card",
    "description",
    "agreement",
    "proposals",
    "gallery",
    "run_contents",
    "run_pictures",
    "run_facts",
    "run_report",
    "sources",
    "lesson",
    "estimator",
    "finishing",
    "playing",
    "rehearsal",
    "after_review",
    "training",
    "search",
    "label_quality",
    "contest",
    "comparison",
    "sweep",
    "subjects",
    "photo_parts",
    "photo_cells",
    "paper",
    "reproduction",
    "durations",
    "figures",
    "learning_curve",
    "plan",
    "reproduction_tables",
    "reproduction_page",
    "tables",
    "comparison_report",
    "report",
    "review_queue",
    "review_writer",
    "review",
    "review_pictures",
    "connections",
    "local_http",
    "review_server",
    "commands",
    "commands.parsing",
    "commands.label_file_flags",
    "commands.labelling",
    "commands.training_flags",
    "commands.*",
    "cli",
    "__main__",
]


def place(name):
    """Where a module stands; those of a package without a line of their own share one."""
    return ORDER.index(name if name in ORDER else f"{name.partition('.')[0]}.*")


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


def test_every_module_has_its_place():
    assert {ORDER[place(name)] for name in NAMES} == set(ORDER)


@pytest.mark.parametrize(("name", "tree"), list(modules()), ids=[name for name, _ in modules()])
def test_imports_point_up(name, tree):
    for other in imported(tree):
        if other:
            assert place(other) < place(name), f"{name} imports {other}"


def test_the_game_knows_no_player_and_nobody_imports_the_command_line():
    arrows = {name: set(imported(tree)) for name, tree in modules()}
    assert not any(other.startswith("players") for other in arrows["game"])
    assert [name for name in arrows if "cli" in arrows[name]] == ["__main__"]


def test_commands_import_nothing_heavy_at_the_top():
    light = {"argparse", "os", "typing", "collections.abc", "g2netpl.base.errors"}
    for name, tree in modules():
        if name.startswith("commands."):
            for node in tree.body:
                if isinstance(node, ast.Import):
                    assert {alias.name for alias in node.names} <= light
                elif isinstance(node, ast.ImportFrom):
                    assert node.module in light


def test_a_person_is_spoken_to_through_one_door():
    """Text is made harmless in `terminal` and `console`: nobody else writes to a terminal."""
    for name, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and name != "terminal":
                assert ast.unparse(node.func) not in ("print", "input"), name
            if isinstance(node, ast.Attribute) and name != "terminal":
                assert ast.unparse(node) not in ("sys.stdout", "sys.stderr"), name
            if isinstance(node, ast.ImportFrom) and name != "console":
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


def test_no_file_has_grown_too_long():
    for path in ROOT.rglob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 320, path
