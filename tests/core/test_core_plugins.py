"""Methods from a file of the user's own."""

from hashlib import sha256

import pytest
import torch

from g2netpl.core import METHODS, Batch, Output, build_method, plugins
from g2netpl.core.plugins import load_plugins, plugin_errors
from g2netpl.utils.errors import InputError

HALVES = """
import torch
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy
from g2netpl.core import Method, register

@register("halves", "an unobserved label is a half", source="this test")
class Halves(Method):
    def loss(self, output, batch, phi):
        return cross_entropy(output.logits, self.with_observed(torch.tensor(0.5), batch.observed))
"""


@pytest.fixture(autouse=True)
def registry():
    """The registered methods are the same after each test."""
    before, loaded = dict(METHODS), list(plugins.LOADED)
    yield
    METHODS.clear()
    METHODS.update(before)
    plugins.LOADED[:] = loaded


def test_a_plugin_registers_a_method_and_runs_once(tmp_path):
    path = tmp_path / "halves.py"
    path.write_text(HALVES)
    load_plugins([str(path), str(path)])
    load_plugins([str(tmp_path / ".." / tmp_path.name / "halves.py")])
    assert [str(path)] == plugins.LOADED
    observed = torch.tensor([[1, -1], [-1, 0]], dtype=torch.int8)
    method, batch = build_method("halves", observed), Batch(torch.arange(2), observed)
    # logits 0: −log ½ for every label
    assert float(method.loss(Output(torch.zeros(2, 2)), batch, 0.0)) == pytest.approx(0.6931472)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 / 0", "mine.py:1: ZeroDivisionError: division by zero"),
        ("x = 1\nprint(", "mine.py:2: '(' was never closed"),
        ("\nimport nothing_of_this_name", "mine.py:2: ModuleNotFoundError"),
        ("x = 1", "mine.py: registers no method; use @register"),
        (HALVES.replace('"halves"', '"an"'), "method 'an' is registered already"),
        (None, "mine.py: no such plugin file"),
    ],
)
def test_a_mistake_in_the_file_is_one_line(tmp_path, text, words):
    path, an = tmp_path / "mine.py", METHODS["an"]
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError) as caught:
        load_plugins([str(path)])
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert METHODS["an"] is an
    assert str(path) not in plugins.LOADED


def test_a_mistake_in_a_method_names_its_line(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(HALVES.replace("return cross", 'return "a" + 1\n        cross'))
    load_plugins([str(path)])
    method = build_method("halves", torch.zeros(1, 1))
    line = 1 + path.read_text().splitlines().index('        return "a" + 1')
    with pytest.raises(InputError, match=rf"mine.py:{line}: TypeError"), plugin_errors():
        method.loss(None, None, 0.0)
    with pytest.raises(ZeroDivisionError), plugin_errors():  # not the plugin's
        [].pop(1 // 0)


def test_a_constructor_that_cannot_be_called_is_rejected_when_it_is_registered(tmp_path):
    path = tmp_path / "mine.py"
    lines = "    def __init__(self, observed):\n        super().__init__(observed)\n"
    path.write_text(HALVES.replace("    def loss", lines + "    def loss"))
    with pytest.raises(InputError, match=r"'halves': __init__ must take \(observed, \*options"):
        load_plugins([str(path)])


def test_the_digest_is_that_of_the_file(tmp_path):
    path = tmp_path / "halves.py"
    path.write_text(HALVES)
    load_plugins([str(path)])
    assert plugins.digest_of("halves") == sha256(path.read_bytes()).hexdigest()
    assert plugins.digest_of("an") is None
