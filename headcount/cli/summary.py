"""Summary: what a user wants to read first after an analysis."""

from rich.console import Console
from rich.table import Table

from headcount.analysis import Analysis
from headcount.roles import ROLES

SHOWN = 3
"""Number of heads named for each role."""


def print_summary(analysis: Analysis, console: Console) -> None:
    """Print how many heads have each role, with the clearest heads and their evidence."""
    roles, counts = analysis.roles, analysis.record["counts"]
    console.print(
        f"Analysed {len(roles)} heads on {counts['sentences']:,} sentences, "
        f"{counts['tokens']:,} tokens "
        f"({analysis.record['timings']['sentences_per_s']:,.0f} sentences/s)"
    )
    table = Table("role", "heads", "clearest", "evidence", box=None, pad_edge=False)
    for name in ROLES:
        found = [(role, head) for head, each in roles.items() for role in each if role.role == name]
        found.sort(key=lambda pair: -pair[0].score)
        heads = ", ".join(head for _, head in found[:SHOWN])
        table.add_row(name, str(len(found)), heads, found[0][0].evidence if found else "none found")
    without = sum(not found for found in roles.values())
    table.add_row("no role", str(without), "", "")
    console.print(table)
    for warning in analysis.record["warnings"]:
        console.print(f"warning: {warning}", style="yellow")
    console.print(analysis.record["signature"], style="dim", soft_wrap=True)
