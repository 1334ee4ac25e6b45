from .atlas import write_atlas as write_atlas
from .result import AtlasHead as AtlasHead
from .result import AtlasModel as AtlasModel
from .result import AtlasRecord as AtlasRecord
