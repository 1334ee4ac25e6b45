from .compaction import compact as compact
from .head_plan import relative as relative
from .projection import Projection as Projection
from .restore import restorable as restorable
from .restore import restored as restored
