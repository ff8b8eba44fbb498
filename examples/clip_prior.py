"""A table of zero-shot CLIP scores, image x class, for `g2netpl train --prior scores.csv`.

    python examples/clip_prior.py photos classes.txt scores.csv
    g2netpl train --labels labels.csv --images photos --prior scores.csv --output runs/first

`classes.txt` has a class per line, as in the label file. A score is the softmax of a class against
all others, so it is only comparable within an image. Needs `pip install open_clip_torch` and its
weights from a hub.
"""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pandas as pd
import torch
from PIL import Image

ENDINGS = (".jpg", ".jpeg", ".png", ".webp")
Score = Callable[[Path], Iterable[float]]  # of an image, a score for each class


def clip_scores(classes: list[str], name: str = "ViT-B-32", weights: str = "openai") -> Score:
    """A function that scores an image."""
    try:
        import open_clip
    except ImportError:
        sys.exit("clip_prior: open_clip is not installed; pip install open_clip_torch")
    model, _, transform = open_clip.create_model_and_transforms(name, pretrained=weights)
    prompts = open_clip.get_tokenizer(name)([f"a photo of a {each}" for each in classes])
    with torch.inference_mode():
        texts = torch.nn.functional.normalize(model.eval().encode_text(prompts), dim=1)

    @torch.inference_mode()
    def score(path: Path) -> Iterable[float]:
        with Image.open(path) as image:
            pixels = transform(image.convert("RGB"))
        features = model.encode_image(pixels[None])
        features = torch.nn.functional.normalize(features, dim=1)
        return (100 * features @ texts.T).softmax(dim=1)[0].tolist()

    return score


def write_table(photos: Path, classes: list[str], path: Path, score: Score) -> None:
    """A row per image below a folder: its name there, and a score for each class."""
    files = sorted(each for each in photos.rglob("*") if each.suffix.lower() in ENDINGS)
    names = [each.relative_to(photos).as_posix() for each in files]
    rows = [score(each) for each in files]
    pd.DataFrame(rows, names, classes).rename_axis("image").to_csv(path)


if __name__ == "__main__":
    photos, listed, target = map(Path, sys.argv[1:])
    classes = [line.strip() for line in listed.read_text().splitlines() if line.strip()]
    write_table(photos, classes, target, clip_scores(classes))
