from .alignment import align as align
from .alignment_options import AlignmentOptions as AlignmentOptions
