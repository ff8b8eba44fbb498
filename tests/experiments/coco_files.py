"""Rows of COCO annotation files."""

CATEGORIES = [
    {"supercategory": "person", "id": 1, "name": "person"},
    {"supercategory": "appliance", "id": 90, "name": "toothbrush"},
]


def coco_image(number):
    return {"id": number, "file_name": f"COCO_train2014_{number:012d}.jpg", "height": 24}


def coco_annotation(number, image, category):
    box = {"area": 1000.0, "iscrowd": 0, "bbox": [473.07, 395.93, 38.65, 28.67]}
    return {"id": number, "image_id": image, "category_id": category, **box}
