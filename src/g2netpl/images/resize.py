"""Squash an image with Pillow and numpy alone, to the very bytes that torch's resize gives.

Training resizes with torch; a classifier that runs without torch must see the same bytes. torch
weighs neighbours by a triangle (antialiased bilinear), first along rows, then along columns. Its
weights are whole numbers over a power of two, the largest below 2**15, and each pass rounds to
bytes. Here a pass is a few small products of matrices. They are exact: numerators of weights times
bytes sum to less than 2**24 where the power is 2**16 or less, which float32 holds, and else to far
less than 2**53.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

Pixels = npt.NDArray[np.uint8]
Weights = npt.NDArray[np.floating[Any]]

_BAND = 8  # rows of the result at a time: their inputs overlap, and hardly any weight is 0
_FLOAT32_HOLDS = 16


def resize(image: Image.Image, size: int) -> Pixels:
    """An RGB image as (size, size, 3) bytes."""
    width, height = image.size
    if width == size:
        pixels = np.asarray(image)
    else:
        turned = np.asarray(image.transpose(Image.Transpose.TRANSPOSE))  # (width, height, 3)
        pixels = _squeezed(turned, size).transpose(1, 0, 2)
    return np.array(pixels, order="C") if height == size else _squeezed(pixels, size)


def _squeezed(pixels: Pixels, size: int) -> Pixels:
    """The first axis of (n, m, 3) bytes brought to a length of `size`."""
    rows = np.ascontiguousarray(pixels).reshape(len(pixels), -1)
    result = np.empty((size, rows.shape[1]), dtype=np.uint8)
    for start, (first, weights) in zip(range(0, size, _BAND), _bands(len(rows), size), strict=True):
        inputs = rows[first : first + weights.shape[1]].astype(weights.dtype)
        rounded = weights @ inputs + weights.dtype.type(0.5)
        result[start : start + _BAND] = np.minimum(rounded, 255)  # a cast to bytes cuts off
    return result.reshape(size, *pixels.shape[1:])


@lru_cache(maxsize=256)
def _bands(before: int, after: int) -> list[tuple[int, Weights]]:
    """For each band of the result, the first input it needs, and the weights of its inputs."""
    scale = before / after
    reach = max(scale, 1.0)
    centre = scale * (np.arange(after) + 0.5)
    first = np.maximum((centre - reach + 0.5).astype(np.int64), 0)
    last = np.minimum((centre + reach + 0.5).astype(np.int64), before)
    steps = np.arange(int((last - first).max()))
    place = first[:, None] + steps
    distance = np.abs((steps + (first - centre)[:, None] + 0.5) * (1.0 / reach))
    weights = np.where(place < last[:, None], np.maximum(1.0 - distance, 0.0), 0.0)
    weights /= weights.cumsum(axis=1)[:, -1:]  # summed one after the other, as torch does
    power = 0
    while power < 22 and int(0.5 + weights.max() * 2 ** (power + 1)) < 2**15:
        power += 1
    rounded = np.floor(0.5 + weights * 2**power) / 2**power
    bands = []
    for start in range(0, after, _BAND):
        part = slice(start, start + _BAND)
        columns = place[part] - first[start]
        band = np.zeros((len(columns), int(columns.max()) + 1))
        np.put_along_axis(band, columns, rounded[part], axis=1)
        band = band[:, : before - first[start]]
        exact: Weights = band.astype(np.float32) if power <= _FLOAT32_HOLDS else band
        bands.append((int(first[start]), exact))
    return bands
