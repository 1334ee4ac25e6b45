from .compaction import compact as compact
from .compaction import restorable as restorable
from .compaction import restored as restored
from .head_lists import check_lists as check_lists
from .head_lists import unlisted as unlisted
from .head_lists import warn_of_numbers as warn_of_numbers
from .head_plan import relative as relative
from .wiring import Projection as Projection
