"""The command `headcount serve`."""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from headcount.commands import Command, DeviceArguments, check_model, plain_console
from headcount.core import InputError, check_accepted
from headcount.corpora import check_template
from headcount.explanation import EFFECTS

if TYPE_CHECKING:
    from headcount.serve.address import Address


@dataclass(frozen=True)
class Serve(DeviceArguments, Command):
    """The arguments of `headcount serve`."""

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
    """Address to listen on; other machines can ask with 0.0.0.0 or an address of the network."""
    port: int = 8765
    """Port to listen on; 0 takes a free one."""
    token: bool = True
    """Require the random token in the printed address."""
    chat: bool = False
    """Read texts as a user's messages in the model's chat template."""
    effect: Annotated[str, EFFECTS] = "zero"
    """Effect of each head alone that the page shows of a prediction."""
    template: tuple[str, ...] = ()
    """Values for the chat template as NAME=VALUE, such as enable_thinking=false; VALUE is JSON, or
    else a text."""

    @classmethod
    def values(cls) -> Mapping[str, Sequence[str]]:
        """The effects, for tab completion."""
        return {"--effect": EFFECTS.names()}

    def run(self) -> int:
        """Bind the port, load the model, print the address and answer."""
        if missing := [name for name in ("starlette", "uvicorn") if find_spec(name) is None]:
            raise InputError(
                f"Expected the package {missing[0]}, which is not installed. Run pip install "
                "'headcount[serve]'."
            )
        from headcount import serve  # needs these packages

        check_model(self.name)
        check_template(self.chat, self.template)
        address = serve.bind(self.host, self.port, self.token)
        with address.socket:
            self._check_reach(address)
            live = serve.open_model(
                self.name,
                model=self.model,
                plan=self.plan,
                device=self.device,
                dtype=self.dtype,
                languages=self.languages,
                trust_remote_code=self.trust_remote_code,
                chat=self.chat,
                template=self.template,
                effect=self.effect,
            )
            console = plain_console()
            console.print(f"{live.loaded.name}: {live.loaded.heads}")
            try:
                if not address.is_local:
                    who = "with the address, token included," if self.token else "that reaches it"
                    console.print(f"Every machine {who} can ask, not only this one.")
                console.print(f"Open {' or '.join(address.urls)}  (Ctrl-C stops)")
                serve.run_server(live, address)
            except KeyboardInterrupt:  # uvicorn has answered what was asked
                with suppress(OSError):  # the terminal has closed
                    console.print("Stopped")
                    sys.stdout.flush()
                # Python would wait for a thread that answers, and take seconds to tear torch down.
                os._exit(0)
        return 0

    def _check_reach(self, address: "Address") -> None:
        """Check that a server without a token is out of other machines' reach."""
        if not (self.token or address.is_local):
            check_accepted(
                f"Expected a token, since other machines can reach --host {self.host}, got "
                "--no-token",
                "Leave --no-token out",
            )
