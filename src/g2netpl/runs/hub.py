"""Hugging Face's hub: a folder in the layout it wants, there and back by huggingface_hub.

README.md is the card, model.onnx the bundle, config.json the classes. Nobody here asks for a token:
huggingface_hub takes it from HF_TOKEN or from its own login, and it is in no message and no file.
"""

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from g2netpl.utils.errors import InputError
from g2netpl.utils.files import is_full

MODEL, CARD, CONFIG = "model.onnx", "README.md", "config.json"
SCHEME = "hf://"
_NAME = re.compile(r"\w[\w.-]{0,95}/\w[\w.-]{0,95}", re.ASCII)


def config_text(classes: Sequence[str], image_size: int, single_label: bool) -> str:
    """config.json: the classes as the hub's other classifiers name them."""
    about = {
        "library_name": "g2netpl",
        "problem_type": f"{'single' if single_label else 'multi'}_label_classification",
        "image_size": image_size,
        "id2label": dict(enumerate(classes)),
        "label2id": {name: number for number, name in enumerate(classes)},
    }
    return json.dumps(about, indent=2, ensure_ascii=False) + "\n"


def is_bundle(name: str) -> bool:
    """Whether a classifier is a bundle: a file, a folder of the hub's layout, or on the hub."""
    inside = os.path.isfile(os.path.join(name, MODEL))
    ending = name.lower().endswith(".onnx")
    return ending or inside or os.path.isfile(name) or name.startswith(SCHEME)


def bundle_file(name: str | Path) -> Path:
    """Where the file of a bundle is; one on the hub, hf://OWNER/NAME[@REVISION], is fetched."""
    text = os.fspath(name)
    if not text.startswith(SCHEME):
        return Path(text, MODEL) if os.path.isfile(os.path.join(text, MODEL)) else Path(text)
    repository, _, revision = text.removeprefix(SCHEME).partition("@")
    check_name(repository)
    from huggingface_hub import hf_hub_download

    with _told(text):
        return Path(hf_hub_download(repository, MODEL, revision=revision or None))


def check_name(name: str) -> None:
    """Refuse what names no repository."""
    if not _NAME.fullmatch(name):
        raise InputError(f"{name}: expected a repository of the hub, as OWNER/NAME")


def check_login(name: str) -> None:
    """Say before the work that nobody is logged in."""
    from huggingface_hub import get_token

    check_name(name)
    if get_token() is None:
        raise InputError(f"{name}: not logged in to the hub; hf auth login, or set HF_TOKEN")


def push(folder: Path, name: str) -> str:
    """Put card, bundle and classes into a repository, private if it is new; returns its address."""
    from huggingface_hub import CommitOperationAdd, HfApi

    hub = HfApi()
    with _told(name):
        hub.create_repo(name, private=True, exist_ok=True)
        files = [CommitOperationAdd(each, folder / each) for each in (CARD, CONFIG, MODEL)]
        hub.create_commit(name, files, commit_message="g2netpl export")
    return f"{hub.endpoint}/{name}"


@contextmanager
def _told(name: str) -> Iterator[None]:
    """What the hub or the way to it says, in one line, without the token."""
    try:
        yield
    except Exception as problem:  # of the hub, its client, or the network: many kinds
        if is_full(problem):
            raise
        from huggingface_hub import get_token

        text = " ".join(str(problem).split())[:300] or type(problem).__name__
        text = text.replace(get_token() or "\0", "…")
        raise InputError(f"{name}: the hub could not do it ({text})") from None
