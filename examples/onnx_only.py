"""Use an exported classifier with onnxruntime, numpy and Pillow: no PyTorch, no g2netpl.

`g2netpl export runs/first --output birds.onnx` writes one file with all that is needed: the graph
takes bytes, and the metadata of the file have the rest (classes, image size, calibration,
thresholds). So these few lines are all that a server, a phone app or another language needs.

    python examples/onnx_only.py birds.onnx photos/*.jpg

It prints the labels of every photo with their scores. Photos are resized by Pillow, which differs
from training in the last bit of some pixels; `g2netpl.load_bundle` gives the very same bytes.
"""

import argparse
import json

import numpy as np
import onnxruntime
from PIL import Image, ImageOps


def main() -> None:
    """Print the labels of each photo."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("bundle", help="file of g2netpl export")
    parser.add_argument("photos", nargs="+")
    parser.add_argument("--json", action="store_true", help="all scores, for programs")
    flags = parser.parse_args()

    session = onnxruntime.InferenceSession(flags.bundle, providers=["CPUExecutionProvider"])
    about = json.loads(session.get_modelmeta().custom_metadata_map["g2netpl"])
    thresholds = [2.0 if limit is None else limit for limit in about["thresholds"]]  # 2: never
    for photo in flags.photos:
        pixels = read(photo, about["image_size"])
        (scores,) = session.run(["scores"], {"pixels": pixels[None]})
        probabilities = calibrate(scores[0], about["temperature"], about["shift"])
        named = dict(zip(about["classes"], probabilities.tolist(), strict=True))
        labels = [
            name
            for name, limit in zip(about["classes"], thresholds, strict=True)
            if named[name] >= limit
        ]
        if flags.json:
            print(json.dumps({"photo": photo, "labels": labels, "scores": named}))
        else:
            shown = ", ".join(f"{name} ({named[name]:.0%})" for name in labels)
            print(f"{photo}: {shown or 'nothing'}")


def read(path: str, size: int) -> np.ndarray:
    """An upright photo, squashed to a square of bytes, (size, size, 3)."""
    with Image.open(path) as file:
        photo = ImageOps.exif_transpose(file).convert("RGB")
    return np.asarray(photo.resize((size, size), Image.Resampling.BILINEAR))


def calibrate(scores: np.ndarray, temperature: float, shift: float) -> np.ndarray:
    """Scores of the network as calibrated probabilities."""
    scores = np.clip(scores.astype(np.float64), 1e-12, 1 - 1e-12)
    logits = np.log(scores / (1 - scores))
    return 1 / (1 + np.exp(-(logits / temperature + shift)))


if __name__ == "__main__":
    main()
