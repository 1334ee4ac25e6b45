from .command import main as main
from .console import plain_warnings as plain_warnings
