"""A small label file of every format; each function puts it into a folder."""

import json

import numpy as np
from malformed import put


def voc_lists(folder):
    put(folder / "ImageSets/Main/train.txt", "a\nb\n")
    put(folder / "ImageSets/Main/cat_train.txt", "a  1\nb -1\n")
    put(folder / "ImageSets/Main/dog_train.txt", "a -1\nb  0\n")
    return folder / "ImageSets/Main/train.txt"


def voc_xml(folder):
    put(folder / "ImageSets/Main/train.txt", "a\nb\n")
    put(folder / "Annotations/a.xml", "<annotation><object><name>cat</name></object></annotation>")
    put(
        folder / "Annotations/b.xml",
        "<annotation><object><name>dog</name><difficult>1</difficult></object></annotation>",
    )
    return folder / "ImageSets/Main/train.txt"


def coco(folder):
    content = {
        "images": [{"id": 1, "file_name": "a.jpg"}, {"id": 2, "file_name": "b.jpg"}],
        "annotations": [{"image_id": 1, "category_id": 1}, {"image_id": 2, "category_id": 2}],
        "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
    }
    return put(folder / "instances.json", json.dumps(content))


def lvis(folder):
    content = {
        "images": [
            {"id": 1, "file_name": "a.jpg", "neg_category_ids": []},
            {"id": 2, "file_name": "b.jpg", "neg_category_ids": [1]},
        ],
        "annotations": [{"image_id": 1, "category_id": 1}],
        "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
    }
    return put(folder / "instances.json", json.dumps(content))


def nuswide(folder):
    put(folder / "ImageList/TrainImagelist.txt", "a.jpg\nb.jpg\n")
    put(folder / "TrainTestLabels/Labels_cat_Train.txt", "1\n0\n")
    put(folder / "TrainTestLabels/Labels_dog_Train.txt", "0\n0\n")
    return folder / "ImageList/TrainImagelist.txt"


def spml_full(folder):
    np.save(folder / "formatted_train_labels.npy", np.array([[1.0, 0.0], [0.0, 0.0]]))
    np.save(folder / "formatted_train_images.npy", np.array(["a.jpg", "b.jpg"]))
    return folder / "formatted_train_labels.npy"


def spml_observed(folder):
    np.save(folder / "formatted_train_labels_obs.npy", np.array([[1.0, -1.0], [0.0, 0.0]]))
    np.save(folder / "formatted_train_images.npy", np.array(["a.jpg", "b.jpg"]))
    return folder / "formatted_train_labels_obs.npy"


def tasks(folder):
    choices = {"type": "choices", "from_name": "label", "value": {"choices": ["cat", "dog"]}}
    absent = {"type": "choices", "from_name": "absent", "value": {"choices": ["owl"]}}
    content = [
        {"data": {"image": "a.jpg"}, "annotations": [{"result": [choices]}]},
        {"data": {"image": "b.jpg"}, "annotations": [{"result": [absent]}]},
        {"data": {"image": "c.jpg"}, "annotations": []},
    ]
    return put(folder / "tasks.json", json.dumps(content))


def tag_file(folder):
    return put(folder / "tags.csv", "image,labels,absent\na.jpg,cat,\nb.jpg,,dog\n")


def openimages(folder):
    text = "ImageID,Source,LabelName,Confidence\na,x,cat,1\nb,x,dog,0\n"
    return put(folder / "labels.csv", text)


def metadata(folder):
    lines = '{"file_name": "a.jpg", "labels": ["cat"]}\n{"file_name": "b.jpg", "absent": ["dog"]}\n'
    return put(folder / "metadata.jsonl", lines)


def class_folders(folder):
    put(folder / "cat/a.jpg", "")
    put(folder / "dog/b.jpg", "")
    return folder


def wide(folder):
    return put(folder / "labels.csv", "image,cat,dog\na.jpg,1,\nb.jpg,-1,0\n")
