from .compaction import compact as compact
from .compaction import restorable as restorable
from .compaction import restored as restored
from .head_plan import relative as relative
from .wiring import Projection as Projection
