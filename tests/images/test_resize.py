"""The resize without torch against torch's own: not one byte may differ."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch.nn.functional import interpolate

from g2netpl.images.resize import resize


def by_torch(pixels, size):
    batch = torch.from_numpy(pixels).permute(2, 0, 1)[None]
    resized = interpolate(batch, size=(size, size), mode="bilinear", antialias=True)
    return resized[0].permute(1, 2, 0).numpy()


def picture(height, width, seed, kind):
    """Noise, noise of black and white alone (which rounds at the ends), or all white."""
    noise = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return {"noise": noise, "extremes": (noise > 127) * np.uint8(255), "white": noise | 255}[kind]


sides = st.integers(1, 400)


@given(sides, sides, st.integers(1, 260), st.sampled_from(["noise", "extremes", "white"]))
def test_every_byte_is_that_of_torch(height, width, size, kind):
    pixels = picture(height, width, height * 1000 + width, kind)
    np.testing.assert_array_equal(resize(Image.fromarray(pixels), size), by_torch(pixels, size))


@pytest.mark.parametrize(
    ("height", "width", "size"),
    [
        (480, 640, 224),  # a photo
        (3000, 20, 7),  # 429 to 1 by height: weights over 2**22, summed in float64
        (20, 5000, 3),
        (224, 300, 224),  # one side is right already
        (300, 224, 224),
        (1, 1, 64),
        (896, 896, 224),  # 4 to 1, where the power of two changes
        (897, 895, 224),
    ],
)
@pytest.mark.parametrize("kind", ["noise", "extremes", "white"])
def test_sizes_at_the_edges(height, width, size, kind):
    pixels = picture(height, width, 5, kind)
    result = resize(Image.fromarray(pixels), size)
    np.testing.assert_array_equal(result, by_torch(pixels, size))
    assert result.flags.c_contiguous
    result[0] = 0  # a copy of its own
