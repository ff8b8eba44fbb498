"""Data sets as their makers give them out, written small by hand, with hand-written tables."""

import json

import numpy as np
import pytest
from malformed import put

from g2netpl.labels.io import ReadOptions, image_folder, read_labels
from g2netpl.utils.errors import InputError

U = -1  # unobserved


# PASCAL VOC 2012

MAIN = "VOC2012/ImageSets/Main"
VOC_XML = """<annotation>
\t<folder>VOC2012</folder>
\t<filename>{name}.jpg</filename>
\t<source>
\t\t<annotation>PASCAL VOC2008</annotation>
\t</source>
{objects}</annotation>
"""
VOC_OBJECT = """\t<object>
\t\t<name>{}</name>
\t\t<bndbox><xmin>53</xmin><ymin>87</ymin><xmax>471</xmax><ymax>420</ymax></bndbox>
\t\t<difficult>{}</difficult>
\t\t<part><name>head</name></part>
\t</object>
"""
VOC_IMAGES = ("2008_000008.jpg", "2008_000015.jpg", "2008_000019.jpg", "2008_000023.jpg")
VOC_CLASSES = ("bottle", "horse", "person")
VOC_VALUES = [[0, 1, 0], [0, 0, 0], [0, 0, 1], [0, 0, 1]]


def test_voc_lists_with_difficult_as_negative(tmp_path):
    signs = {"person": (0, -1, 1, 1), "horse": (1, -1, -1, -1), "bottle": (-1, 0, -1, 0)}
    for name, column in signs.items():
        rows = zip(VOC_IMAGES, column, strict=True)
        text = "".join(f"{image.removesuffix('.jpg')} {sign:2}\n" for image, sign in rows)
        put(tmp_path / MAIN / f"{name}_train.txt", text)
        put(tmp_path / MAIN / f"{name}_val.txt", "2008_000002 -1\n")
    put(tmp_path / MAIN / "val.txt", "2008_000002\n")
    names = "".join(name.replace(".jpg", "\n") for name in VOC_IMAGES)
    path = put(tmp_path / MAIN / "train.txt", names)
    table = read_labels(path)
    assert table.images == VOC_IMAGES
    assert table.classes == VOC_CLASSES
    assert table.values.tolist() == VOC_VALUES
    assert image_folder(path) == tmp_path / "VOC2012/JPEGImages"
    assert read_labels(path.with_name("val.txt")).values.tolist() == [[0, 0, 0]]


def test_voc_annotations_alone_say_the_same_as_the_lists(tmp_path):
    objects = {
        "2008_000008": [("person", 1), ("horse", 0)],
        "2008_000015": [("bottle", 1), ("bottle", 1)],
        "2008_000019": [("person", 1), ("person", 0)],
        "2008_000023": [("person", 0), ("bottle", 1)],
    }
    path = put(tmp_path / MAIN / "train.txt", "".join(f"{name}\n" for name in objects))
    for name, content in objects.items():
        parts = "".join(VOC_OBJECT.format(*part) for part in content)
        xml = VOC_XML.format(name=name, objects=parts)
        put(tmp_path / f"VOC2012/Annotations/{name}.xml", xml)
    table = read_labels(path)
    assert (table.images, table.classes) == (VOC_IMAGES, VOC_CLASSES)
    assert table.values.tolist() == VOC_VALUES


# COCO 2014


def coco_file(path, images, annotations, categories):
    content = {"info": {"year": 2014}, "images": images, "licenses": []}
    content |= {"annotations": annotations, "categories": categories}
    return put(path, json.dumps(content))


def test_coco_sorts_ids_as_text_and_leaves_out_what_has_no_annotation(tmp_path):
    images = [
        {"id": number, "file_name": f"COCO_val2014_{number:012d}.jpg", "height": 480}
        for number in (9, 100, 25, 1000, 74, 3)
    ]
    boxes = [(9, 90, 0), (100, 1, 1), (25, 1, 0), (25, 1, 0), (25, 13, 0), (1000, 13, 0)]
    annotations = [
        {"id": number, "image_id": image, "category_id": category, "iscrowd": crowd, "area": 1.5}
        for number, (image, category, crowd) in enumerate(boxes)
    ]
    names = {1: "person", 90: "toothbrush", 13: "stop sign"}
    categories = [{"supercategory": "x", "id": key, "name": name} for key, name in names.items()]
    path = tmp_path / "annotations/instances_val2014.json"
    table = read_labels(coco_file(path, images, annotations, categories))
    assert table.images == tuple(f"COCO_val2014_{number:012d}.jpg" for number in (100, 1000, 25, 9))
    assert table.classes == ("person", "stop sign", "toothbrush")
    assert table.values.tolist() == [[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]]
    assert table.notes == (
        "2 images without any annotation are left out, as in the SPML protocol "
        "(--set absent=unobserved keeps them, unlabelled)",
    )


def test_lvis_knows_what_is_absent(tmp_path):
    negatives = {397133: [3], 37777: [1, 2], 5: []}
    images = [
        {"id": number, "coco_url": f"http://x/train2017/{number:012}.jpg", "neg_category_ids": ids}
        for number, ids in negatives.items()
    ]
    names = ("aerosol_can", "air_conditioner", "airplane")
    categories = [{"id": place, "name": name} for place, name in enumerate(names, 1)]
    annotations = [
        {"id": 1, "image_id": 397133, "category_id": 2, "area": 27.3, "bbox": [1, 2, 3, 4]},
        {"id": 2, "image_id": 37777, "category_id": 3, "area": 27.3, "bbox": [1, 2, 3, 4]},
    ]
    path = coco_file(tmp_path / "lvis_v1_val.json", images, annotations, categories)
    table = read_labels(path)
    assert table.images == ("000000037777.jpg", "000000397133.jpg", "000000000005.jpg")
    assert table.classes == names
    assert table.values.tolist() == [[0, 0, 1], [U, 1, 0], [U, U, U]]


# NUS-WIDE

CONCEPTS = ("airport", "sky", "zebra")
NUS_IMAGES = ("actor/0001_2124494179.jpg", "actor/0002_174174086.jpg", "zoo/0393_7.jpg")
NUS_VALUES = [[0, 1, 1], [0, 0, 0], [1, 0, 0]]


def nus_files(folder, suffix):
    for name, cells in zip(CONCEPTS, zip(*NUS_VALUES, strict=True), strict=True):
        put(folder / f"Labels_{name}{suffix}.txt", "".join(f"{cell}\n" for cell in cells))


@pytest.mark.parametrize("groundtruth", ["", "Groundtruth/", "GroundTruth/"])
def test_nuswide_keeps_images_without_any_concept(tmp_path, groundtruth):
    names = "".join(name.replace("/", "\\") + "\r\n" for name in NUS_IMAGES)
    path = put(tmp_path / "ImageList/TrainImagelist.txt", names)
    nus_files(tmp_path / f"{groundtruth}TrainTestLabels", "_Train")
    nus_files(tmp_path / f"{groundtruth}TrainTestLabels", "_Test")
    table = read_labels(path)
    assert (table.images, table.classes) == (NUS_IMAGES, CONCEPTS)
    assert table.values.tolist() == NUS_VALUES


# OpenImages

OPENIMAGES = """ImageID,Source,LabelName,Confidence
000026e7ee790996,verification,/m/04hgtk,0
000026e7ee790996,verification,/m/07j7r,1
000026e7ee790996,crowdsource-verification,/m/07j7r,1
000062a39995e348,verification,/m/015p6,1
000062a39995e348,verification,/m/04hgtk,1
"""


def test_openimages_names_what_is_there_and_what_is_not(tmp_path):
    path = put(tmp_path / "validation-annotations-human-imagelabels.csv", OPENIMAGES)
    table = read_labels(path)
    assert table.images == ("000026e7ee790996.jpg", "000062a39995e348.jpg")
    assert table.classes == ("/m/015p6", "/m/04hgtk", "/m/07j7r")
    assert table.values.tolist() == [[U, 0, 1], [1, 1, U]]


@pytest.mark.parametrize("header", ["", "LabelName,DisplayName\n"])
def test_openimages_takes_names_from_the_descriptions(tmp_path, header):
    text = f'{header}/m/04hgtk,"Head, human"\n/m/07j7r,Tree\n/m/0,Other\n'
    put(tmp_path / "oidv7-class-descriptions.csv", text)
    table = read_labels(put(tmp_path / "labels.csv", OPENIMAGES))
    assert table.classes == ("/m/015p6", "Head, human", "Tree")
    assert table.values.tolist() == [[U, 0, 1], [1, 1, U]]


# SPML's exchange files


def spml_files(folder, labels, images, part="train", kind="labels"):
    np.save(folder / f"formatted_{part}_{kind}.npy", labels)
    np.save(folder / f"formatted_{part}_images.npy", images)
    return folder / f"formatted_{part}_{kind}.npy"


SPML_IMAGES = np.array(["2008_000008.jpg", "2008_000015.jpg", "2008_000019.jpg"])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["<f8", ">f4", "<i8", "<i1", "<f2"])
def test_spml_observed_labels_call_the_unknown_zero(tmp_path, kind, order):
    labels = np.array([[1, 0], [-1, 0], [0, 1]], dtype=kind, order=order)
    path = spml_files(tmp_path, labels, SPML_IMAGES.astype("S"), kind="labels_obs")
    table = read_labels(path)
    assert table.images == tuple(SPML_IMAGES)
    assert table.values.tolist() == [[1, U], [0, U], [U, 1]]


# Hugging Face's imagefolder

HF_IMAGES = ("0001.png", "sub/0002.png", "0003.png")


def test_imagefolder_with_lines_of_json(tmp_path):
    lines = [
        {"file_name": "0001.png", "labels": ["cat", "dog"], "text": "a caption"},
        {"file_name": "sub/0002.png", "labels": "dog; owl", "absent": ["cat"]},
        {"file_name": "0003.png", "labels": None},
    ]
    text = "".join(json.dumps(line) + "\r\n" for line in lines)
    path = put(tmp_path / "metadata.jsonl", text + "\n")
    for source in (path, tmp_path):
        table = read_labels(source)
        assert (table.images, table.classes) == (HF_IMAGES, ("cat", "dog", "owl"))
        assert table.values.tolist() == [[1, 1, U], [0, 1, 1], [U, U, U]]
        assert image_folder(source) == tmp_path


@pytest.mark.parametrize(
    ("columns", "values"),
    [
        ({"labels": [["cat", "dog"], ["dog"], []]}, [[1, 1], [U, 1], [U, U]]),
        ({"labels": ["cat|dog", "dog", None]}, [[1, 1], [U, 1], [U, U]]),
        (
            {"labels": [["cat"], None, []], "absent": [None, ["cat"], ["dog"]]},
            [[1, U], [0, U], [U, 0]],
        ),
        ({"cat": [1, 0, None], "dog": [True, False, None]}, [[1, 1], [0, 0], [U, U]]),
        ({"cat": [1.0, -1.0, float("nan")], "dog": [0, 0, -1]}, [[1, 0], [U, 0], [U, U]]),
        ({"cat": [1, 1, 0], "dog": [None, None, None]}, [[1, U], [1, U], [0, U]]),
    ],
)
def test_imagefolder_with_parquet(tmp_path, columns, values):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    table = pyarrow.table({"file_name": list(HF_IMAGES)} | columns)
    write_table(table, tmp_path / "metadata.parquet")
    read = read_labels(tmp_path)
    assert (read.images, read.classes) == (HF_IMAGES, ("cat", "dog"))
    assert read.values.tolist() == values


def test_imagefolder_takes_folders_as_classes(tmp_path):
    for name in (
        "dog/1.png",
        "dog/2.JPG",
        "cat/1.jpeg",
        "loose.png",
        "more.png",
        "cat/notes.txt",
        ".x/3.png",
    ):
        put(tmp_path / name, "")
    table = read_labels(tmp_path)
    assert table.images == ("cat/1.jpeg", "dog/1.png", "dog/2.JPG")
    assert table.classes == ("cat", "dog")
    assert table.values.tolist() == [[1, U], [U, 1], [U, 1]]
    assert table.notes == ("2 images in no folder of a class are unlabelled",)


# A folder that is a data set of its own layout is no folder per class


@pytest.mark.parametrize(
    "images",
    [
        ("images/1.jpg",),
        ("train/1.jpg", "valid/2.jpg", "test/3.jpg"),
        ("JPEGImages/1.jpg", "SegmentationClass/1.png", "SegmentationObject/1.png"),
        ("cats/images/1.jpg", "cats/masks/1.png"),
        ("2019/1.jpg", "2020-05-31/2.jpg", "2020/20200531/3.jpg"),
    ],
)
def test_parts_of_a_data_set_are_no_classes(tmp_path, images):
    for name in images:
        put(tmp_path / name, "")
    with pytest.raises(InputError, match=r"which are not names of classes; read .* label file"):
        read_labels(tmp_path)
    names = tuple({name.split("/")[-2]: 0 for name in images})
    assert read_labels(tmp_path, options=ReadOptions(classes=names)).images == tuple(sorted(images))


def test_folders_of_photos_with_sidecars_point_to_their_keywords(tmp_path):
    put(tmp_path / "Paris/1.jpg", "")
    assert read_labels(tmp_path).notes == ()
    put(tmp_path / "Paris/1.jpg.xmp", "")
    assert "--format photo-tags" in read_labels(tmp_path).notes[0]
