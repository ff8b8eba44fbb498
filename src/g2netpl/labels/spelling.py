"""Names that look the same: an accent is a part of its letter (NFC) or stands behind it (NFD).

Macs write names of files in the second way, people type in the first. What looks the same is the
same class, and the same image if no file has exactly that name. So is a file that was uploaded to
Label Studio: `photo one.jpg` is stored there as `1a2b3c4d-photo_one.jpg`.
"""

import re
import unicodedata

_UPLOAD = re.compile(r"[0-9a-f]{8}-([^/]+)")


def composed(name: str) -> str:
    """A name with its accents as parts of their letters."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def stored(name: str) -> str:
    """A name as Label Studio stores it: letters, digits, `-`, `_` and `.`."""
    return re.sub(r"[^-\w.]", "", composed(name).strip().replace(" ", "_"))


def before_upload(name: str) -> str | None:
    """What a name was, as stored, before it was uploaded; None of one that looks like no upload."""
    found = _UPLOAD.fullmatch(name)
    return None if found is None else composed(found[1])
