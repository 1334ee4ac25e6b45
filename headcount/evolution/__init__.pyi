from .evolving import evolve as evolve
from .evolving import forget_evolution as forget_evolution
from .options import QUANTITIES as QUANTITIES
from .options import EvolutionOptions as EvolutionOptions
