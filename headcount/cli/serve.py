"""`headcount serve`: a local page on which a model answers."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import tyro

from headcount.cli.arguments import DeviceArguments, check_model
from headcount.cli.console import plain_console
from headcount.core import InputError


@dataclass(frozen=True)
class Serve(DeviceArguments):
    """Type a sentence in the browser: attention of every head, gates by hand, predictions."""

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL|RUN|PRUNED")]
    """A model, the folder of headcount analyze (its roles are shown), or a pruned model's folder
    (the dense model is opened with the plan)."""
    model: str | None = None
    """Dense model of the run or pruned model; by default the one that its record names."""
    plan: Path | None = None
    """A plan.json or a folder with one, to set its gates by one click."""
    languages: tuple[str, str] | None = None
    """Languages of source and target, for a multilingual translator: eng_Latn deu_Latn."""
    host: str = "127.0.0.1"
    """Address to listen on; with 0.0.0.0, other machines can ask, too."""
    port: int = 8765
    """Port to listen on; 0 takes a free one."""
    token: bool = True
    """Require the random token in the printed address."""

    def run(self) -> int:
        """Bind the port, load the model, print the address and answer."""
        if missing := [name for name in ("starlette", "uvicorn") if find_spec(name) is None]:
            raise InputError(
                f"Expected the package {missing[0]}, which is not installed. Run pip install "
                "'headcount[serve]'."
            )
        from headcount import serve  # needs these packages

        check_model(self.name)
        address = serve.bind(self.host, self.port, self.token)
        with address.socket:
            live = serve.open_model(
                self.name,
                model=self.model,
                plan=self.plan,
                device=self.device,
                dtype=self.dtype,
                languages=self.languages,
                trust_remote_code=self.trust_remote_code,
            )
            console = plain_console()
            console.print(f"{live.loaded.name}: {live.loaded.heads}")
            console.print(f"Open {address.url}  (Ctrl-C stops)")
            try:
                serve.run_server(live, address)
            except KeyboardInterrupt:  # uvicorn has answered what was asked
                console.print("Stopped")
        return 0
