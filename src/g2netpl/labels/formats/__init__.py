"""Label files in and out: `catalogue` has FORMATS, a row each, `label_files` reads and writes them.

A file per format, with `recognises`, `read` and perhaps `write`: `coco`, `csv_table` (workbooks
too), `huggingface`, `imagefolder`, `label_studio` (`label_studio_tasks` its images and answers),
`nuswide`, `openimages`, `parquet`, `photo_tags` (and the
folder `photos`), `spml`, `tags`, `voc`, `xlsx`.

What they share: `reading` says how a file is to be understood, `problems` keeps all mistakes,
`collector` makes a table label by label, `twins` one of a column per class. `text`, `sheet`,
`columns`, `json_file` and `xml_file` read what others wrote.

Around them: `layouts` knows data sets by their folders; `merging` joins files, `aliases` their
names of classes; `groups` and `one_of` are what a user may say of images.
"""

from g2netpl.labels.formats.aliases import read_aliases as read_aliases
from g2netpl.labels.formats.catalogue import FORMATS as FORMATS
from g2netpl.labels.formats.catalogue import Format as Format
from g2netpl.labels.formats.catalogue import Paths as Paths
from g2netpl.labels.formats.catalogue import find_format as find_format
from g2netpl.labels.formats.catalogue import find_writer as find_writer
from g2netpl.labels.formats.catalogue import image_folder as image_folder
from g2netpl.labels.formats.catalogue import image_folders as image_folders
from g2netpl.labels.formats.label_files import USUAL as USUAL
from g2netpl.labels.formats.label_files import read_labels as read_labels
from g2netpl.labels.formats.label_files import read_matching as read_matching
from g2netpl.labels.formats.label_files import unpack as unpack
from g2netpl.labels.formats.label_files import write_labels as write_labels
from g2netpl.labels.formats.problems import LabelFileError as LabelFileError
from g2netpl.labels.formats.problems import Problem as Problem
from g2netpl.labels.formats.reading import Reading as Reading
from g2netpl.labels.formats.reading import read_classes as read_classes
