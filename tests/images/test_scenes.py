import numpy as np

from g2netpl.images.scenes import CLASSES, make_scenes


def test_scenes_are_a_function_of_the_seed():
    one, same, other = make_scenes(8, 4, 3), make_scenes(8, 4, 3), make_scenes(8, 4, 4)
    assert (one.train_images == same.train_images).all()
    assert (one.train_images != other.train_images).any()
    assert one.test.values.tolist() == same.test.values.tolist()


def test_scenes_show_one_to_four_digits(scenes):
    counts = scenes.train.values.sum(axis=1)
    assert set(counts.tolist()) == {1, 2, 3, 4}
    assert scenes.train.classes == CLASSES
    assert scenes.train_images.shape == (60, 64, 64, 3)
    assert scenes.train_images.dtype == np.uint8
    assert (scenes.train.values.sum(axis=0) > 0).all()


def test_train_and_test_use_disjoint_digits(monkeypatch):
    drawn = []
    choice = np.random.Generator.choice

    class Watching(np.random.Generator):
        def choice(self, *args, **kwargs):
            drawn.append(result := choice(self, *args, **kwargs))
            return result

    original = np.random.default_rng
    monkeypatch.setattr(np.random, "default_rng", lambda s: Watching(original(s).bit_generator))
    make_scenes(50, 50)
    train, test = set(np.concatenate(drawn[:50])), set(np.concatenate(drawn[50:]))
    assert len(train) > 50
    assert not train & test
