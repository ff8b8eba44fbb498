"""Three doors are public: what examples and docs import comes through them, and nothing else."""

import ast
import json
import re
import textwrap
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOORS = ("g2netpl", "g2netpl.experiments", "g2netpl.core")
PROMISED = (
    "read_labels write_labels LabelTable Setting observe RunConfig train load_run complete "
    "evaluate load_bundle PartialLabelClassifier METHODS make_scenes"
)


def sources():
    """The Python of the examples, the notebook, and the docs."""
    for path in sorted((ROOT / "examples").rglob("*.py")):
        yield path, path.read_text(encoding="utf-8")
    notebook = ROOT / "examples" / "tour.ipynb"
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            yield notebook, "".join(cell["source"])
    for path in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ):
        text = path.read_text(encoding="utf-8")
        for block in re.findall(r"^ *```python\n(.*?)^ *```", text, flags=re.MULTILINE | re.DOTALL):
            yield path, textwrap.dedent(block)
        for line in re.findall(r"(?:from g2netpl\S* import [\w, ]+|import g2netpl\S*\b)", text):
            yield path, line.rstrip(", ")


def imports(text):
    """Modules of ours and the names that are imported from them."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("g2netpl"):
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            ours = (alias.name for alias in node.names if alias.name.startswith("g2netpl"))
            yield from ((name, None) for name in ours)


def is_public(module, name):
    """Whether an import goes through a door."""
    return module in DOORS and (name is None or name in import_module(module).__all__)


def test_examples_and_docs_import_what_is_public():
    found = [(path, each) for path, text in sources() for each in imports(text)]
    assert len(found) > 30
    for path, (module, name) in found:
        assert is_public(module, name), f"{path}: {module}: {name}"


def test_what_type_checkers_see_is_what_dir_shows():
    """The names are listed twice: once for type checkers, once to be imported on first use."""
    module = import_module("g2netpl")
    assert dir(module) == module.__all__
    assert all(getattr(module, name) is not None for name in module.__all__)
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    guarded = [node for node in tree.body if isinstance(node, ast.If)]
    seen = [alias.asname for node in ast.walk(guarded[0]) for alias in getattr(node, "names", ())]
    assert sorted(seen) == module.__all__


def test_what_was_promised_is_there():
    assert set(PROMISED.split()) <= set(import_module("g2netpl").__all__)
