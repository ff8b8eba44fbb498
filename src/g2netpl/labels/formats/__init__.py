"""Label files in and out: `catalogue` has FORMATS, a row each, `label_files` reads and writes them.

A file per format, with `recognises`, `read` and `write`: `coco`, `csv_table` (workbooks too),
`fiftyone`, `huggingface` (`huggingface_data` are its files), `imagefolder`, `label_studio`
(`label_studio_tasks` its images and answers, `label_studio_controls` its fields), `nuswide`,
`openimages`, `parquet`, `photo_tags` (and the folder `photos`), `spml`, `tags`, `voc`,
`webdataset`, `xlsx`.

What they share: `reading` says how a file is to be understood, `problems` keeps all mistakes,
`collector` makes a table label by label, `twins` one of a column per class. `text`, `sheet`,
`columns`, `column_files`, `json_file` and `xml_file` read what others wrote.

Around them: `layouts` knows data sets by their folders; `merging` joins files, `aliases` their
names of classes; `groups` and `one_of` are what a user may say of images, `proposals` what a run
says of labels.
"""

from g2netpl.labels.formats.aliases import read_aliases
from g2netpl.labels.formats.catalogue import (
    FORMATS,
    Format,
    Paths,
    find_format,
    find_writer,
    image_folder,
    image_folders,
)
from g2netpl.labels.formats.label_files import (
    USUAL,
    read_labels,
    read_matching,
    unpack,
    write_labels,
)
from g2netpl.labels.formats.problems import LabelFileError, Problem
from g2netpl.labels.formats.reading import Reading, read_classes

__all__ = [
    "FORMATS",
    "USUAL",
    "Format",
    "LabelFileError",
    "Paths",
    "Problem",
    "Reading",
    "find_format",
    "find_writer",
    "image_folder",
    "image_folders",
    "read_aliases",
    "read_classes",
    "read_labels",
    "read_matching",
    "unpack",
    "write_labels",
]
