"""Labels and scores as data frames of pandas: a row per image, a column per class."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from g2netpl.base.errors import InputError
from g2netpl.labels.table import UNOBSERVED


def frame_of(values: npt.NDArray[Any], images: Sequence[str], classes: Sequence[str]) -> Any:
    """A data frame; labels are whole numbers, and missing where they are unknown."""
    try:
        import pandas
    except ImportError:
        raise InputError(
            "as_frame: a data frame needs pandas; install it with pip install pandas, or leave out "
            "as_frame for an array"
        ) from None
    rows = pandas.Index(list(images), name="image")
    frame = pandas.DataFrame(np.asarray(values), rows, list(classes))
    if values.dtype.kind == "i":
        return frame.astype("Int8").mask(frame == UNOBSERVED)
    return frame
