from .result import ChosenHead as ChosenHead
from .result import Coreference as Coreference
from .result import CoreferenceOptions as CoreferenceOptions
from .result import CoreferenceRecord as CoreferenceRecord
from .result import CoreferenceRow as CoreferenceRow
from .result import NameRow as NameRow
from .selecting import forget_coreference as forget_coreference
from .selecting import select_antecedents as select_antecedents
