"""Lists of methods on the command line."""

import pytest

from g2netpl.commands.flags import split_list


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("gr:slope=(0,2),an", ("gr:slope=(0,2)", "an")),
        ("an,gr:slope=[0,2]:offset=(-2,-1),epr", ("an", "gr:slope=[0,2]:offset=(-2,-1)", "epr")),
        ("an, wan", ("an", "wan")),
        ("gr:slope=(0,an", ("gr:slope=(0", "an")),
    ],
)
def test_brackets_protect_a_comma_of_a_list(text, parts):
    assert split_list("--methods", text, str) == parts
