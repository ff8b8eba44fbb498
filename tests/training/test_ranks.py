"""Several processes against one: the same images, weights, labels and figures; and the same end."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
from ranks import Group
from safetensors.torch import load_file
from test_epochs import INPUTS, TRUTH, VISIBLE
from torch import nn

from g2netpl import RunConfig, load_run, train
from g2netpl.base.disk import DiskTrouble
from g2netpl.base.errors import InputError
from g2netpl.base.processes import ALONE, Processes, connect
from g2netpl.base.signals import Interrupts
from g2netpl.game.batches import training_batches
from g2netpl.game.methods import make_player
from g2netpl.game.network.network import Network, build_network
from g2netpl.game.network.predicting import predict_all
from g2netpl.game.player import Setup
from g2netpl.images.loader import ArraySource, ImageSource
from g2netpl.training import agreement, description
from g2netpl.training import epochs as fitting
from g2netpl.training import inputs as sources
from g2netpl.training import saving as keeping
from g2netpl.training.epochs import Loop, Schedule, Validation, fit


@pytest.fixture(scope="module")
def pair():
    group = Group(2)
    yield group
    group.close()


@pytest.fixture(scope="module")
def trio():
    group = Group(3)
    yield group
    group.close()


def the_processes():
    return connect(True, Interrupts())


@pytest.fixture
def values(small_training):
    """A training of 48 images in 7 batches, as flags would give it."""

    def make(output, **changes):
        usual = {"backbone": "plain", "epochs": 3, "batch_size": 7}
        return small_training(output, **{**usual, **changes})

    return make


def training(values, resume=False):
    """Train, as a job of a rank; every rank must come to the same."""
    run = train(RunConfig.read(values, "test"), resume=resume)
    return run.result["test_map"], float(
        sum(value.detach().sum() for value in run.network.parameters())
    )


def weights(run):
    return load_file(run.folder / "model.safetensors")


def history(run):
    lines = (run.folder / "history.jsonl").read_text().splitlines()
    timed = ("seconds", "images_per_second")
    return [{k: v for k, v in json.loads(line).items() if k not in timed} for line in lines]


def assert_equal(one, two):
    """To the last bit."""
    first, second = weights(one), weights(two)
    assert all(torch.equal(value, second[name]) for name, value in first.items())
    assert (one.soft_labels() == two.soft_labels()).all()
    assert history(one) == history(two)


def assert_close(one, two):
    """Within rounding, in all that a run leaves behind."""
    first, second = weights(one), weights(two)
    for name, value in first.items():
        torch.testing.assert_close(value, second[name], atol=1e-5, rtol=0)
    np.testing.assert_allclose(one.soft_labels(), two.soft_labels(), atol=1e-5, rtol=0)
    assert one.result["best_epoch"] == two.result["best_epoch"]
    for key in ("validation_map", "test_map", "last_test_map", "pseudo_label_map"):
        assert one.result[key] == pytest.approx(two.result[key], abs=1e-7)
    for before, after in zip(history(one), history(two), strict=True):
        known = {key: value for key, value in after.items() if isinstance(value, int | float)}
        assert set(before) == set(after)
        assert {key: before[key] for key in known} == pytest.approx(known, rel=1e-3, abs=1e-5)


# --- who sees what -------------------------------------------------------------------------------


class Pretended(Processes):
    """One of several ranks, in words only: all images can be read."""

    def __init__(self, rank, size):
        self.rank, self.size = rank, size


@pytest.mark.parametrize("size", [1, 2, 3])
def test_every_image_is_seen_once_per_epoch_by_one_rank(size):
    for count in range(1, 41):
        source = ArraySource(torch.arange(count).float()[:, None])
        observed = torch.zeros(count, 1, dtype=torch.int8)
        for batch_size in range(1, 9):
            alone = [b.rows for b in training_batches(source, observed, batch_size, 5, 2)]
            seen = [[] for _ in alone]
            for rank in range(size):
                processes = Pretended(rank, size)
                batches = training_batches(source, observed, batch_size, 5, 2, processes=processes)
                for number, batch in enumerate(batches):
                    assert torch.equal(batch.rows, alone[number])  # everybody knows the batch
                    own = batch.counts[rank] if size > 1 else len(batch)
                    assert len(batch.inputs) == max(own, 1)
                    seen[number] += batch.inputs[:own, 0].int().tolist()
            assert seen == [rows.tolist() for rows in alone]  # shares in order, none twice
            assert sorted(chain(*seen)) == list(range(count))


def look_at_batches(count, batch_size):
    source = ArraySource(torch.arange(count).float()[:, None])
    observed, processes = torch.zeros(count, 1, dtype=torch.int8), the_processes()
    batches = training_batches(source, observed, batch_size, 5, 2, processes=processes)
    return [
        (b.rows.tolist(), b.inputs[: b.counts[processes.rank], 0].int().tolist()) for b in batches
    ]


def test_real_ranks_share_the_same_batches(trio):
    for count, batch_size in ((1, 1), (2, 5), (7, 2), (10, 4)):
        source = ArraySource(torch.arange(count).float()[:, None])
        observed = torch.zeros(count, 1, dtype=torch.int8)
        alone = [b.rows.tolist() for b in training_batches(source, observed, batch_size, 5, 2)]
        by_rank = trio.run(look_at_batches, count, batch_size)
        for number, rows in enumerate(alone):
            assert all(batches[number][0] == rows for batches in by_rank)
            assert list(chain(*(batches[number][1] for batches in by_rank))) == rows


def score(count, seed):
    network = build_network("features", 3, width=6, seed=seed)
    return predict_all(
        network, ArraySource(INPUTS[:count]), batch_size=4, processes=the_processes()
    )


def test_predictions_are_the_same_to_the_last_bit_for_any_number_of_ranks(pair, trio):
    for count in (0, 1, 4, 5, 9, 33):
        network = build_network("features", 3, width=6, seed=count)
        alone = predict_all(network, ArraySource(INPUTS[:count]), batch_size=4)
        for group in (pair, trio):
            for scores in group.run(score, count, count):
                assert (scores == alone).all()


# --- the game ------------------------------------------------------------------------------------

GAMES = {
    "g2netpl": ("g2netpl", "linear", {}),
    "g2netpl end to end": ("g2netpl", "end-to-end", {}),
    "g2netpl upper blocks": ("g2netpl", "top", {}),
    "role": ("role", "linear", {}),
    "ll-ct": ("ll-ct", "end-to-end", {"rate": 0.2}),
    "fixmatch": ("fixmatch", "end-to-end", {"threshold": 0.55}),
    "em-apl": ("em-apl", "linear", {"start": 0.2}),
    "ups": ("ups", "linear", {"rounds": 2, "positive_mean": 0.51, "positive_deviation": 0.2}),
}


@pytest.mark.parametrize(("method", "mode", "options"), GAMES.values(), ids=GAMES)
def test_two_ranks_come_to_what_one_process_comes_to(pair, values, method, mode, options):
    common = {"method": method, "mode": mode, "options": options, "learning_rate": 0.02}
    alone = train(RunConfig.read(values("alone", **common), "test"))
    both = pair.run(training, values("both", **common))
    assert both[0] == both[1]
    assert_close(alone, load_run(values("both")["output"]))
    start = build_network("plain", 10).state_dict()
    found = {name.replace(".shares", ""): value for name, value in weights(alone).items()}
    moved = max(float((found[name] - value).abs().max()) for name, value in start.items())
    assert moved > 0.02  # so that 1e-5 says something


@pytest.mark.parametrize("changes", [{"ema": 0.8}, {"view": "pair"}], ids=["average", "views"])
def test_two_ranks_average_and_look_at_views_like_one_process(pair, values, changes):
    common = {"mode": "end-to-end", "learning_rate": 0.02, **changes}
    alone = train(RunConfig.read(values("alone", **common), "test"))
    one, two = pair.run(training, values("both", **common))
    assert one == two
    assert_close(alone, load_run(values("both")["output"]))


def test_linear_init_with_an_estimated_k(pair, values):
    common = {"mode": "linear-init", "linear_epochs": 2, "expected_positives": "estimate"}
    alone = train(RunConfig.read(values("alone", **common), "test"))
    pair.run(training, values("both", **common, cache=values("own cache")["output"]))
    both = load_run(values("both")["output"])
    assert_close(alone, both)
    assert alone.expected_positives == both.expected_positives


def small_game(count, batch_size, options):
    """A game on features of few images; on several ranks if there are."""
    processes = the_processes()
    observed = torch.from_numpy(VISIBLE[:count])
    network = build_network("features", 4, width=6, seed=0)
    player = make_player("g2netpl", options, Setup(observed, 1.4, 0.05, 0))
    free = nn.parallel.DistributedDataParallel(network) if processes.size > 1 else network
    snapshot = fit(
        free,
        player,
        ArraySource(INPUTS[:count]),
        observed,
        1.4,
        torch.optim.Adam(network.parameters(), lr=0.05),
        Schedule(3, batch_size, 0),
        Validation(ArraySource(INPUTS[60:]), TRUTH[60:]),
        loop=Loop(processes=processes),
    )
    return snapshot.network, player.soft_labels(), snapshot.best_map


@pytest.mark.parametrize(
    ("count", "batch_size"), [(2, 4), (7, 2), (3, 1)], ids=["few images", "pairs", "one by one"]
)
@pytest.mark.parametrize("options", [{}, {"prediction": "fresh"}], ids=["reuse", "fresh"])
def test_ranks_without_an_image_take_part(trio, count, batch_size, options):
    network, labels, score = small_game(count, batch_size, options)
    for other, other_labels, other_score in trio.run(small_game, count, batch_size, options):
        for name, value in network.items():
            torch.testing.assert_close(value, other[name], atol=1e-5, rtol=0)
        torch.testing.assert_close(labels, other_labels, atol=1e-5, rtol=0)
        assert score == pytest.approx(other_score, abs=1e-7)


def a_step_with_batch_norm():
    """One step with hardly any learning, by four images; returns the statistics of batch norm."""
    processes = the_processes()
    network = build_network("tiny", 2)
    free = nn.parallel.DistributedDataParallel(network) if processes.size > 1 else network
    images = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    observed = torch.tensor([[1, -1]] * 4, dtype=torch.int8)
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-9)
    player = make_player("an", {}, Setup(observed, 1.0, 1e-9, 0))
    schedule = Schedule(1, 4, 0)
    fit(
        free,
        player,
        ArraySource(images),
        observed,
        1.0,
        optimizer,
        schedule,
        loop=Loop(processes=processes),
    )
    return {name: value.clone() for name, value in network.named_buffers()}


def test_statistics_of_batch_norm_are_the_mean_over_the_ranks(pair):
    alone, (one, two) = a_step_with_batch_norm(), pair.run(a_step_with_batch_norm)
    assert all(torch.equal(value, two[name]) for name, value in one.items())
    # before the first layer there is no other: the mean over halves is the mean over all
    first = next(name for name in alone if name.endswith("running_mean"))
    torch.testing.assert_close(one[first], alone[first], atol=1e-6, rtol=0)
    assert (one[first] != 0).any()


def steps_with_one_image_each(count):
    """An epoch in batches of two; batch norm sees vectors, one of them alone on two ranks."""
    processes = the_processes()
    torch.manual_seed(0)
    network = Network(nn.BatchNorm1d(6), nn.Linear(6, 4))
    free = nn.parallel.DistributedDataParallel(network) if processes.size > 1 else network
    observed = torch.from_numpy(VISIBLE[:count])
    optimizer = torch.optim.Adam(network.parameters(), lr=0.05)
    player = make_player("an", {}, Setup(observed, 1.4, 0.05, 0))
    game = (free, player, ArraySource(INPUTS[:count]), observed, 1.4, optimizer)
    return fit(*game, Schedule(1, 2, 0), loop=Loop(processes=processes)).network


@pytest.mark.parametrize("count", [4, 5])
def test_ranks_with_one_image_each_have_the_same_network(pair, count):
    one, two = pair.run(steps_with_one_image_each, count)
    assert all(torch.equal(value, two[name]) for name, value in one.items())
    assert (one["backbone.running_mean"] == 0).all()  # nothing was gathered
    assert (one["backbone.weight"] != 1).all()  # and all learn


def decoded_by_this_rank(values):
    seen = []
    decoded = ImageSource.decoded

    def watch(source, groups, epoch):
        seen.extend(source.dataset.paths[row] for rows in groups for row in rows)
        return decoded(source, groups, epoch)

    ImageSource.decoded = watch
    try:
        training(values)
    finally:
        ImageSource.decoded = decoded
    return seen


def test_features_are_computed_in_shares_and_once(pair, values, photos):
    both = pair.run(decoded_by_this_rank, values("first", mode="linear", method="an"))
    assert sorted(both[0] + both[1]) == sorted(str(path) for path in photos.glob("*.png"))
    assert min(map(len, both)) >= 30
    again = pair.run(decoded_by_this_rank, values("second", mode="linear", method="wan"))
    assert again == [[], []]


def on_a_machine_of_its_own(values):
    """A training whose rank is the first of its machine, with a cache there."""
    before, rank = os.environ["LOCAL_RANK"], os.environ["RANK"]
    os.environ["LOCAL_RANK"] = "0"
    try:
        return decoded_by_this_rank({**values, "cache": f"{values['cache']}-{rank}"})
    finally:
        os.environ["LOCAL_RANK"] = before


def test_activations_are_kept_on_every_machine(pair, values):
    common = {"mode": "top", "train_from": "2", "learning_rate": 0.02}
    alone = train(RunConfig.read(values("alone", **common), "test"))
    caches = [Path(f"{values('')['cache']}-{rank}") for rank in (0, 1)]
    for name, looks in (("first", True), ("second", False), ("third", True)):
        seen = pair.run(on_a_machine_of_its_own, values(name, **common))
        assert list(map(bool, seen)) == [looks] * 2
        assert_close(alone, load_run(values(name)["output"]))
        assert [len(list(cache.iterdir())) for cache in caches] == [3, 3]
        if name == "second":
            for path in caches[1].iterdir():
                path.unlink()  # and the other machine has its own


# --- bad images, mistakes, bugs ------------------------------------------------------------------


@pytest.fixture
def with_broken(values, photos, tmp_path):
    """The same pictures, some of which end too early: their headers are fine."""
    folder = tmp_path / "broken"
    folder.mkdir()
    names = (photos / "train.csv").read_text().splitlines()
    images = [line.partition(",")[0] for line in names[1:]]
    broken = images[3], images[20]
    for image in images:
        content = (photos / image).read_bytes()
        (folder / image).write_bytes(content[:200] if image in broken else content)
    (folder / "labels.csv").write_text("\n".join(names))

    def make(output, **changes):
        here = {"labels": str(folder / "labels.csv"), "images": str(folder), "test_labels": None}
        return values(output, **here, validation=0.0, **changes)

    return make, broken


@pytest.mark.parametrize("mode", ["end-to-end", "top", "linear"])
def test_images_that_one_rank_cannot_read_are_left_out_by_all(pair, with_broken, mode):
    make, broken = with_broken
    alone = train(RunConfig.read(make("alone", mode=mode, max_bad=2), "test"))
    pair.run(training, make("both", mode=mode, max_bad=2))
    both = load_run(make("both")["output"])
    np.testing.assert_allclose(alone.soft_labels(), both.soft_labels(), atol=1e-5, rtol=0)
    for name, value in weights(alone).items():
        torch.testing.assert_close(value, weights(both)[name], atol=1e-5, rtol=0)
    missing = np.isnan(both.soft_labels()).any(axis=1)
    assert {both.observed().images[row] for row in np.flatnonzero(missing)} == set(broken)


@pytest.mark.parametrize("mode", ["end-to-end", "top", "linear"])
def test_too_many_bad_images_end_all_ranks_with_the_same_words(pair, with_broken, mode):
    make, broken = with_broken
    pair.start(training, make("both", mode=mode, max_bad=1))
    one, two = pair.outcomes()
    assert one.code == two.code == 2
    assert one.text == two.text
    assert "2 images cannot be read, --max-bad allows 1" in one.text
    assert all(name in one.text for name in broken)
    # before the first epoch, or within it
    assert not os.path.exists(make("both")["output"] + "/history.jsonl")
    assert os.path.exists(make("both")["output"]) == (mode == "end-to-end")


def failing(values, rank, where, how):
    """Train, with a failure on one rank at some place."""
    problems = {
        "input": InputError("only here"),
        "disk": DiskTrouble("only here"),
        "bug": TypeError("only here"),
        "ctrl-c": KeyboardInterrupt(),
    }
    places = {
        "loading": (ImageSource, "decoded"),
        "measuring": (fitting, "mean_average_precision"),
        "saving": (keeping.Writer, "submit"),
        "probing": (fitting.Equilibrium, "read"),
    }
    owner, name = places[where]
    original = getattr(owner, name)
    calls = []

    def fail(*arguments, **named):
        calls.append(1)
        if the_rank == rank and len(calls) == 3:
            raise problems[how]
        return original(*arguments, **named)

    the_rank = int(os.environ["RANK"])
    setattr(owner, name, fail)
    try:
        training(values)
    finally:
        setattr(owner, name, original)


@pytest.mark.parametrize(
    ("rank", "where", "how", "codes"),
    [
        (0, "loading", "input", (2, 2)),
        (1, "loading", "input", (2, 2)),
        (1, "measuring", "bug", (70, 70)),
        (0, "saving", "disk", (74, 74)),
        (1, "probing", "input", (2, 2)),
        (0, "measuring", "ctrl-c", (70, 130)),
    ],
)
def test_what_ends_one_rank_ends_all(pair, values, rank, where, how, codes):
    pair.start(failing, values("run"), rank, where, how)
    outcomes = pair.outcomes()
    assert tuple(outcome.code for outcome in outcomes) == codes
    assert all("only here" in outcome.text or how == "ctrl-c" for outcome in outcomes)
    assert pair.run(os.getpid)  # nobody hangs


# --- ranks that were not started alike -----------------------------------------------------------


def unlike(values, changes, resume, patches):
    """Train; the last rank with other keys, and with other objects in place of some."""
    agreement._PATIENCE = 0.5
    with pytest.MonkeyPatch.context() as patch:
        if int(os.environ["RANK"]) == int(os.environ["WORLD_SIZE"]) - 1:
            values = {**values, **changes}
            for name, value in patches.items():
                patch.setattr(name, value)
            resume = changes.get("resume", resume)
        train(
            RunConfig.read({k: v for k, v in values.items() if k != "resume"}, "test"),
            resume=resume,
        )


def assert_refused(group, values, words, changes=None, resume=False, patches=None):
    group.start(unlike, values, changes or {}, resume, patches or {})
    outcomes = group.outcomes()
    for outcome in outcomes:
        assert outcome.code == 3, outcome
        assert outcome.text.startswith(f"rank {group.size - 1} differs from rank 0 in {words}")
        assert outcome.text.count("\n") == 0
    assert group.run(os.getpid)  # nobody hangs


FLAGS = {
    "learning rate": ({"learning_rate": 0.5}, "--learning-rate (0.5, not none); start every rank"),
    "method": (
        {"method": "an"},
        "--method (an, not g2netpl); start every rank with the same flags",
    ),
    "batch size": ({"batch_size": 5}, "--batch-size (5, not 7);"),
    "seed": ({"seed": 3}, "--seed (3, not 0);"),
    "options": ({"options": {"beta": 0.5}}, '--options ({"beta": 0.5}, not {});'),
    "several": ({"epochs": 9, "view": "plain"}, "--view (plain, not paper), --epochs (9, not 3);"),
    "a file or none": ({"test_labels": None}, "--test-labels (none, not given);"),
    "run folder": ({"output": "somewhere/else"}, "--output;"),
    "resume": ({"resume": True}, "--resume (true, not false);"),
}


@pytest.mark.parametrize(("changes", "words"), FLAGS.values(), ids=FLAGS)
def test_ranks_with_other_flags_are_refused(pair, values, changes, words):
    assert_refused(pair, values("run"), words, changes)
    assert not os.path.exists(values("run")["output"] + "/run.json")


def other_device(config):
    return "cuda"


def other_versions():
    return {**description.versions(), "torch": "1.0"}


def test_ranks_of_other_versions_and_devices_are_refused(trio, values):
    there = {"g2netpl.training.agreement._device": other_device}
    assert_refused(trio, values("run"), "kind of device (cuda, not cpu);", patches=there)
    there = {"g2netpl.training.agreement.versions": other_versions}
    assert_refused(trio, values("run"), "torch (1.0, not ", patches=there)


@pytest.fixture
def elsewhere(photos, tmp_path):
    """The photos as they are on another machine."""
    return shutil.copytree(photos, tmp_path / "elsewhere")


def test_ranks_with_the_same_files_elsewhere_are_alike(pair, values, elsewhere):
    there = {
        key: str(elsewhere / f"{part}.csv")
        for key, part in (("labels", "train"), ("test_labels", "test"))
    }
    common = {"mode": "linear", "epochs": 1}
    pair.run(unlike, values("run", **common), {**there, "images": str(elsewhere)}, False, {})
    assert load_run(values("run")["output"]).result["best_epoch"] == 1


def other_label(folder):
    lines = (folder / "train.csv").read_text().splitlines()
    name, value, rest = lines[3].split(",", 2)
    lines[3] = f"{name},{1 - int(value)},{rest}"
    (folder / "train.csv").write_text("\n".join(lines) + "\n")


def fewer_images(folder):
    lines = (folder / "train.csv").read_text().splitlines()
    (folder / "train.csv").write_text("\n".join(lines[:-2]) + "\n")


def other_classes(folder):
    for name in ("train.csv", "test.csv"):
        lines = [line.rpartition(",")[0] for line in (folder / name).read_text().splitlines()]
        (folder / name).write_text("\n".join(lines) + "\n")


def other_picture(folder):
    first, second = sorted(folder.glob("train-*.png"))[:2]
    first.write_bytes(second.read_bytes())


def other_pixel(folder):
    """A picture of the same size in bytes."""
    path = min(folder.glob("test-*.png"))
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)


def more_images(folder):
    path = min(folder.glob("train-*.png"))
    (folder / "one-more.png").write_bytes(path.read_bytes())


ELSEWHERE = {
    other_label: "the training labels, the labels that are seen;",
    fewer_images: "the number of images (58, not 60), the training labels",
    other_classes: "the number of classes (9, not 10), the classes, the training labels",
    other_picture: "the image files;",
    other_pixel: "the image files;",
    more_images: "the number of images (61, not 60), the training labels",
}


@pytest.mark.parametrize(
    ("change", "words"), ELSEWHERE.items(), ids=lambda each: getattr(each, "__name__", "")
)
def test_ranks_with_other_files_are_refused(pair, values, elsewhere, change, words):
    change(elsewhere)
    there = {"labels": "train.csv", "test_labels": "test.csv", "images": ""}
    there = {key: str(elsewhere / name) for key, name in there.items()}
    usual = {"only_listed": change is not more_images, "mode": "linear", "setting": "known:0.7"}
    assert_refused(pair, values("run", **usual), words, there)


def other_backbone(config):
    backbone = sources.backbone_of(config)
    next(backbone.module.parameters()).data[0] += 1e-6
    return backbone


def test_ranks_with_other_pretrained_weights_are_refused(pair, values):
    there = {"g2netpl.training.train.backbone_of": other_backbone}
    assert_refused(pair, values("run"), "the weights of the backbone;", patches=there)


content = agreement._content


def not_shared(path):
    return "nothing" if path.name == "run.json" else content(path)


def test_ranks_that_do_not_share_the_run_folder_are_refused(pair, values):
    there = {"g2netpl.training.agreement._content": not_shared}
    assert_refused(pair, values("run"), "what is in --output, which all ranks", patches=there)
    began = train(RunConfig.read(values("run"), "test"), overwrite=True)  # nothing is in the way
    assert began.result["best_epoch"] >= 1


# --- signals, crashes, going on ------------------------------------------------------------------


def stopped_at(values, rank, step, resume=False, where="step", number=signal.SIGTERM):
    """Train until this rank, at some step, gets a signal."""
    owner, name = {
        "step": (keeping.CheckpointSaver, "step"),
        "measuring": (fitting, "mean_average_precision"),
    }[where]
    original = getattr(owner, name)
    calls = []

    def count(*arguments, **named):
        calls.append(1)
        if len(calls) == step and int(os.environ["RANK"]) in rank:
            os.kill(os.getpid(), number)
        return original(*arguments, **named)

    setattr(owner, name, count)
    try:
        training(values, resume)
    finally:
        setattr(owner, name, original)


def assert_stopped(group, values, *arguments):
    group.start(stopped_at, values, *arguments)
    for outcome in group.outcomes():
        assert outcome.code == 75, outcome
        assert "stopped" in outcome.text
        assert "--resume" in outcome.text


@pytest.mark.parametrize(
    ("ranks", "step", "where"),
    [((0, 1), 9, "step"), ((1,), 2, "measuring"), ((0,), 2, "measuring")],
    ids=["all at a step", "one rank measuring", "the first measuring"],
)
def test_a_signal_stops_all_ranks_and_going_on_is_exact(pair, values, ranks, step, where):
    common = {"learning_rate": 0.02}
    pair.run(training, values("whole", **common))
    assert_stopped(pair, values("stopped", **common), ranks, step, False, where)
    folder = values("stopped")["output"]
    saved = sorted(path.name for path in os.scandir(f"{folder}/checkpoints"))
    assert saved[-1] == ("0-000001-00000002" if where == "step" else "0-000001-00000007")
    assert len(saved) == 2  # after the first epoch, and this one, once
    pair.run(training, values("stopped", **common), True)
    assert_equal(load_run(values("whole")["output"]), load_run(folder))


def test_going_on_with_another_number_of_ranks(pair, trio, values):
    common = {"mode": "linear-init", "linear_epochs": 2, "epochs": 2, "learning_rate": 0.005}
    alone = train(RunConfig.read(values("alone", **common), "test"))
    assert_stopped(pair, values("moving", **common), (1,), 3)
    assert_stopped(trio, values("moving", **common), (0,), 6, True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RANK", "0")
        with pytest.raises(BaseException, match="stopped") as caught:
            stopped_at(values("moving", **common), (0,), 5, True)
    assert caught.value.exit_code == 75
    pair.run(training, values("moving", **common), True)
    assert_close(alone, load_run(values("moving")["output"]))


def test_a_killed_rank_ends_the_others_and_nothing_is_torn(values):
    group = Group(3)
    try:
        common = {"learning_rate": 0.02, "checkpoint_steps": 1}
        group.start(stopped_at, values("run", **common), (1,), 10, False, "step", signal.SIGKILL)
        outcomes = group.outcomes()
        assert outcomes[1] is None
        for outcome in (outcomes[0], outcomes[2]):
            assert outcome.error == "RankLost"
            assert outcome.code == 6
            assert "--resume" in outcome.text
    finally:
        group.close()
    alone = train(RunConfig.read(values("alone", **common), "test"))
    resumed = train(RunConfig.read(values("run", **common), "test"), resume=True)
    assert_close(alone, resumed)


# --- starting ------------------------------------------------------------------------------------


def flags(values):
    """The same training on a command line."""
    for key, value in values.items():
        if isinstance(value, bool):
            yield f"--{key.replace('_', '-')}"
        else:
            yield from (f"--{key.replace('_', '-')}", str(value))


def test_the_command_line_on_two_ranks(pair, values):
    """As srun starts it: the environment tells each process its place. One of them speaks."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    common = {"backbone": "tiny", "method": "an", "epochs": 1}
    command = [sys.executable, "-m", "g2netpl", "train", *flags(values("run", **common, workers=1))]
    place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks = [
        subprocess.Popen(
            command,
            env={**os.environ, **place, "RANK": rank, "LOCAL_RANK": rank, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in ("0", "1")
    ]
    said = [rank.communicate(timeout=120)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said
    assert said[1] == ""
    assert "epoch 1 of " in said[0]
    assert said[0].count("written to") == 1
    pair.run(training, values("other", **common))
    assert_equal(load_run(values("run")["output"]), load_run(values("other")["output"]))


@pytest.mark.parametrize(
    ("known", "missing"),
    [
        ({"WORLD_SIZE": "2", "RANK": "0"}, "LOCAL_RANK, MASTER_ADDR, MASTER_PORT not set"),
        ({"OMPI_COMM_WORLD_SIZE": "2"}, "2 processes were started, but RANK, LOCAL_RANK, WORLD"),
    ],
    ids=["torchrun", "mpirun"],
)
def test_half_a_launch_is_refused(monkeypatch, known, missing):
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in known.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=missing):
        the_processes()


def test_others_do_not_work_in_several_processes(monkeypatch, capsys):
    from g2netpl.cli import main

    monkeypatch.setattr(signal, "signal", lambda *_: None)
    for rank, said in (("0", 1), ("1", 0)):
        for name, value in (("WORLD_SIZE", "2"), ("RANK", rank), ("LOCAL_RANK", rank)):
            monkeypatch.setenv(name, value)
        assert main(["methods"]) == 2
        told = "only train, predict, complete and features work in several processes"
        assert capsys.readouterr().err.count(told) == said
        with pytest.raises(SystemExit) as ended:
            main(["train", "--bogus"])
        assert ended.value.code == 2
        assert capsys.readouterr().err.count("--bogus") == said


def test_loader_processes_end_with_the_process_wherever_it_is(photos):
    """They ignore signals, so that nobody else may end them."""
    code = (
        "import sys\nfrom g2netpl.images.loader import ImageSource, plain_groups\n"
        "source = ImageSource(sys.argv[1:], 16, (0.5,) * 3, (0.25,) * 3, workers=1)\n"
        "begun = source.load(plain_groups(8, 1), None)\nnext(begun)\n"
    )
    paths = sorted(str(path) for path in photos.glob("train-*.png"))[:8]
    ended = subprocess.run([sys.executable, "-c", code, *paths], timeout=120, capture_output=True)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_one_process_is_a_team_of_its_own(monkeypatch):
    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    assert the_processes() is ALONE
    assert sys.modules["torch"].distributed.is_initialized() is False
