from .analysis import analyze as analyze
from .analysis import measure as measure
from .analysis import versions as versions
from .induction import induction_scores as induction_scores
from .options import Options as Options
from .roles import NOT_SYNTAX as NOT_SYNTAX
from .roles import ROLES as ROLES
from .roles import find_roles as find_roles
