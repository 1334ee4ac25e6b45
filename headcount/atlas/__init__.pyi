from .atlas import write_atlas as write_atlas
from .checking import missing as missing
from .result import About as About
from .result import AtlasHead as AtlasHead
from .result import AtlasModel as AtlasModel
from .result import AtlasRecord as AtlasRecord
from .result import KnownHead as KnownHead
