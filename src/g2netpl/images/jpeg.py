"""A faster decoder of JPEG files: simplejpeg, which comes with the extra `fast`.

Its pixels may differ from Pillow's by a few grey levels where the two bring different versions of
libjpeg. Whatever is not a plain colour or grey file, and whatever simplejpeg finds fault with, is
left to Pillow.
"""

from importlib.util import find_spec
from typing import Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from g2netpl.base.errors import InputError

Decoder = Literal["pillow", "simplejpeg"]
_MOST_BYTES = 1 << 28  # of a file that is read as a whole


def check_decoder(decoder: Decoder) -> None:
    """Refuse a decoder that is not installed."""
    if decoder == "simplejpeg" and find_spec("simplejpeg") is None:
        raise InputError(
            "decoder: simplejpeg is not installed; pip install 'g2netpl[fast]', or use pillow"
        )


def decode_jpeg(file: Image.Image) -> npt.NDArray[np.uint8] | None:
    """The pixels of a file that Pillow has opened, in the size it is set to; None: not this way."""
    if file.format != "JPEG" or file.mode not in ("RGB", "L"):
        return None
    import simplejpeg

    width, height = file.size
    stream = file.fp  # type: ignore[attr-defined]
    stream.seek(0)
    content = stream.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        return None
    try:
        pixels: npt.NDArray[np.uint8] = simplejpeg.decode_jpeg(
            content, "RGB", min_height=height, min_width=width
        )
    except ValueError:  # also for a fault that Pillow would pass over
        return None
    return pixels if pixels.shape == (height, width, 3) else None
