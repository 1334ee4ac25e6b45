from .aligning import align as align
from .result import Alignment as Alignment
from .result import AlignmentOptions as AlignmentOptions
from .result import AlignmentRecord as AlignmentRecord
from .result import AlignmentRow as AlignmentRow
