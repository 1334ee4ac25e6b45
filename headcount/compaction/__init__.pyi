from .compaction import compact as compact
from .compaction import restorable as restorable
from .compaction import restored as restored
from .head_plan import check_lists as check_lists
from .head_plan import relative as relative
from .head_plan import unlisted as unlisted
from .head_plan import warn_of_numbers as warn_of_numbers
from .wiring import Projection as Projection
