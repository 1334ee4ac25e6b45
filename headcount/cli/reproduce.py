"""`headcount reproduce PAPER`: a paper's tables and figures with our numbers beside them."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from headcount.cli.reproduce_li2021 import Li2021
from headcount.cli.reproduce_michel2019 import Michel2019
from headcount.cli.reproduce_voita2019 import Voita2019


@dataclass(frozen=True)
class Reproduce:
    """Print a paper's tables and figures with our numbers beside the published ones."""

    paper: tyro.conf.OmitArgPrefixes[
        tyro.conf.OmitSubcommandPrefixes[
            Annotated[Michel2019, tyro.conf.subcommand("michel2019")]
            | Annotated[Voita2019, tyro.conf.subcommand("voita2019")]
            | Annotated[Li2021, tyro.conf.subcommand("li2021")]
        ]
    ]

    def run(self) -> int:
        """Run the paper's own command."""
        return self.paper.run()
