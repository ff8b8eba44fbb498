"""Real runs that are killed, stopped and damaged at many moments, and go on.

`pytest -m long tests/faults` tries more of them.
"""

import pytest

from faults import damage, deaths, refusals
from faults.driver import Driver
from faults.scene import KINDS, Lab, make_photos


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    lab = Lab(None, tmp_path_factory.mktemp("lab"))
    make_photos(lab.photos)
    with Driver(lab.new("g2netpl lp-ft").arguments()) as driver:
        lab.driver = driver
        yield lab


def held(tries):
    """All tries of a trial are well, and there were some."""
    outcomes = list(tries)
    assert outcomes
    assert [outcome for outcome in outcomes if outcome[1]] == []


@pytest.mark.parametrize(("kind", "tries"), [("g2netpl", 2), ("role", 1)])
def test_killed_at_any_moment_it_goes_on_as_if_nothing_had_been(lab, kind, tries):
    held(deaths.kills(lab, kind, tries, named=tries - 1))


@pytest.mark.parametrize("kind", ["g2netpl linear", "role linear", "g2netpl lp-ft", "ups linear"])
def test_so_it_does_on_features_between_phases_and_in_rounds(lab, kind):
    held(deaths.kills(lab, kind, tries=1, named=1))


def test_stopped_at_any_moment_it_saves_and_says_how_to_go_on(lab):
    held(deaths.stops(lab, "role linear", tries=3))


def test_stopped_between_the_steps(lab):
    held(deaths.stops_between(lab, moments=deaths.BETWEEN[1:7:3]))  # reading a picture; at an end
    held(deaths.stops_between(lab, "g2netpl linear", deaths.BETWEEN[2::3]))


def test_stopped_before_there_is_anything_it_can_be_run_again(lab):
    held(deaths.stops_before(lab, deaths.BEFORE[:3:2]))


def test_a_second_ctrl_c_tears_no_file(lab):
    held(deaths.second_keys(lab, "g2netpl linear", tries=2))


def test_a_crash_at_calls_of_the_disk(lab):
    held(deaths.crashes(lab, every=71))


def test_killed_while_a_run_is_replaced_nothing_is_lost(lab):
    held(deaths.overwrites(lab))


def test_a_dead_loader_process_is_one_line(lab):
    held(deaths.dead_workers(lab, moments=deaths.WORKERS[3:4]))
    held(deaths.orphans(lab, tries=1))


def test_damage_is_noticed(lab):
    held(damage.damages(lab, tries=6, kinds=["role linear", "g2netpl linear"]))


def test_a_full_disk(lab):
    held(damage.full_disks(lab, points=damage.FULL_AT[::3]))


def test_no_numbers(lab):
    held(damage.non_finite(lab, kinds=["g2netpl linear"]))


def test_two_runs_in_a_folder(lab):
    held(refusals.two_runs(lab, "g2netpl linear"))


def test_what_changed_is_named(lab):
    held(refusals.changes(lab, "g2netpl linear"))


def test_an_unfinished_training_is_not_begun_again(lab):
    held(refusals.unfinished(lab))


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_twenty_random_moments(lab, kind):
    held(deaths.kills(lab, kind))


@pytest.mark.long
def test_stopped_at_every_moment_between_the_steps(lab):
    held(deaths.stops(lab, "g2netpl"))
    held(deaths.stops_between(lab))
    held(deaths.stops_before(lab))
    held(deaths.second_keys(lab))


@pytest.mark.long
def test_a_crash_at_every_call_of_the_disk(lab):
    held(deaths.crashes(lab))


@pytest.mark.long
def test_signals_to_a_real_process(lab):
    held(refusals.early_signals(lab))
    held(refusals.at_the_terminal(lab))


@pytest.mark.long
def test_every_damage(lab):
    held(damage.damages(lab))
    held(damage.full_disks(lab))
    held(damage.non_finite(lab))
