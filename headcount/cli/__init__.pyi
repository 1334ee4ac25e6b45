from .command import main as main
