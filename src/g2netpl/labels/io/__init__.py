"""Label files in and out: `label_files` has FORMATS, a row each, and reads and writes them.

`options` says how a file is to be read, `issues` keeps what is wrong, `build` makes a table.
"""

from g2netpl.labels.io.issues import Issue as Issue
from g2netpl.labels.io.issues import LabelFileError as LabelFileError
from g2netpl.labels.io.label_files import FORMATS as FORMATS
from g2netpl.labels.io.label_files import USUAL as USUAL
from g2netpl.labels.io.label_files import Format as Format
from g2netpl.labels.io.label_files import Paths as Paths
from g2netpl.labels.io.label_files import find_format as find_format
from g2netpl.labels.io.label_files import find_writer as find_writer
from g2netpl.labels.io.label_files import image_folder as image_folder
from g2netpl.labels.io.label_files import image_folders as image_folders
from g2netpl.labels.io.label_files import read_labels as read_labels
from g2netpl.labels.io.label_files import read_matching as read_matching
from g2netpl.labels.io.label_files import write_labels as write_labels
from g2netpl.labels.io.options import ReadOptions as ReadOptions
from g2netpl.labels.io.options import read_aliases as read_aliases
from g2netpl.labels.io.options import read_classes as read_classes
