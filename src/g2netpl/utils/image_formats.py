"""The image formats that Pillow may open: those it decodes itself, and HEIC through pillow-heif."""

from functools import cache
from importlib.util import find_spec

MAX_PIXELS = 64_000_000
_FORMATS = (
    *("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "ICO", "JPEG2000", "AVIF", "HEIF"),
)


@cache
def formats() -> tuple[str, ...]:
    """The formats to pass to `PIL.Image.open`; the first call registers HEIC."""
    import pillow_heif

    pillow_heif.register_heif_opener(thumbnails=False, depth_images=False, aux_images=False)
    return _FORMATS


@cache
def can_read_raw() -> bool:
    """Whether rawpy, which reads the previews in raw files, is installed."""
    return find_spec("rawpy") is not None
