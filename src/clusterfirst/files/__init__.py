"""Reading and writing every format; files are written beside and renamed.

The suffix chooses the format (docs/formats.md). Whatever is wrong with a file
comes out as an InputError that names it.
"""

from clusterfirst.files.atomic import replacing, write_bytes, write_text
from clusterfirst.files.by_suffix import (
    read_instance,
    read_instances,
    read_orders,
    read_solution,
    write_instance,
    write_instances,
    write_solution,
)
from clusterfirst.files.city_folder import (
    BUNDLED_ORDERS,
    bundled_city,
    read_city,
    read_locations,
    write_city,
)
from clusterfirst.files.json_files import instance_document
from clusterfirst.files.sets import Entry
from clusterfirst.files.solutions import solution_document
from clusterfirst.files.source import Limits
from clusterfirst.files.strict_json import write_json

__all__ = [
    "BUNDLED_ORDERS",
    "Entry",
    "Limits",
    "bundled_city",
    "instance_document",
    "read_city",
    "read_instance",
    "read_instances",
    "read_locations",
    "read_orders",
    "read_solution",
    "replacing",
    "solution_document",
    "write_bytes",
    "write_city",
    "write_instance",
    "write_instances",
    "write_json",
    "write_solution",
    "write_text",
]
