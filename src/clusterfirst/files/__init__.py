"""Reading and writing every format; files are written beside and renamed.

The suffix chooses the format (docs/formats.md). Whatever is wrong with a file
comes out as an InputError that names it.
"""

from clusterfirst.files.atomic import replacing as replacing
from clusterfirst.files.atomic import write_bytes as write_bytes
from clusterfirst.files.atomic import write_text as write_text
from clusterfirst.files.by_suffix import read_instance as read_instance
from clusterfirst.files.by_suffix import read_instances as read_instances
from clusterfirst.files.by_suffix import read_orders as read_orders
from clusterfirst.files.by_suffix import read_solution as read_solution
from clusterfirst.files.by_suffix import write_instance as write_instance
from clusterfirst.files.by_suffix import write_instances as write_instances
from clusterfirst.files.by_suffix import write_solution as write_solution
from clusterfirst.files.city_folder import BUNDLED_ORDERS as BUNDLED_ORDERS
from clusterfirst.files.city_folder import bundled_city as bundled_city
from clusterfirst.files.city_folder import read_city as read_city
from clusterfirst.files.city_folder import read_locations as read_locations
from clusterfirst.files.city_folder import write_city as write_city
from clusterfirst.files.json_files import instance_document as instance_document
from clusterfirst.files.sets import Entry as Entry
from clusterfirst.files.solutions import solution_document as solution_document
from clusterfirst.files.source import Limits as Limits
from clusterfirst.files.strict_json import write_json as write_json
