"""Which head of rxnmapper maps atoms: `python -m benchmarks.reactions MODEL DATASET.zip [EVERY]`.

Needs RDKit. DATASET.zip is golden_dataset.zip of Reaction_Data_Cleaning, 1,851 reactions whose
atoms were mapped by people; MODEL is saved by `python -m tests.packaged`. Atoms are the words. A
link is sure between an atom and the one it is mapped to, and possible with that one's symmetric
atoms. Prints the accuracy of the best heads in every direction.
"""

import re
import sys
import zipfile
from pathlib import Path
from typing import Any

from headcount import AlignmentOptions, Corpus, Sentence, align, load
from headcount.corpora import Links
from tests.packaged import SMILES

Atom = tuple[int, int, tuple[str, int]]
"""Position among the words, number of the map (0 for none), and what symmetric atoms share."""


def side(molecules: Any) -> tuple[list[str], list[Atom]]:
    """The pieces of the SMILES of some molecules, in alphabetical order, and their atoms."""
    from rdkit import Chem  # pyright: ignore[reportMissingImports]

    written = []
    for molecule in molecules:
        numbers = [atom.GetAtomMapNum() for atom in molecule.GetAtoms()]
        for atom in molecule.GetAtoms():
            atom.SetAtomMapNum(0)
        Chem.SanitizeMol(molecule)
        for atom, number in zip(molecule.GetAtoms(), numbers, strict=True):
            atom.SetIntProp("map", number)
        plain = Chem.RemoveHs(molecule)
        text = Chem.MolToSmiles(plain)
        order = list(plain.GetPropsAsDict(True, True)["_smilesAtomOutputOrder"])
        ranks = list(Chem.CanonicalRankAtoms(plain, breakTies=False))
        atoms = [(plain.GetAtomWithIdx(i).GetIntProp("map"), (text, ranks[i])) for i in order]
        written.append((text, atoms))
    pieces, found = list[str](), list[Atom]()
    for text, atoms in sorted(written, key=lambda pair: pair[0]):
        pieces += ["."] if pieces else []
        rest = iter(atoms)
        for piece in re.findall(SMILES, text):
            if piece[0].isalpha() or piece[0] == "[":
                number, same = next(rest)
                found.append((len(pieces), number, same))
            pieces.append(piece)
    return pieces, found


def links(sources: list[Atom], targets: list[Atom]) -> Links:
    """The links of a reaction."""
    sure, possible = set(), set()
    for target, number, _ in targets:
        mapped = [atom for atom in sources if number and atom[1] == number]
        if len(mapped) == 1:
            sure.add((mapped[0][0], target))
            possible |= {(place, target) for place, _, same in sources if same == mapped[0][2]}
    return Links(frozenset(sure), frozenset(sure | possible))


def reactions(path: Path, every: int) -> tuple[Corpus, list[Links]]:
    """Every so many reactions of the data set."""
    from rdkit.Chem import AllChem  # pyright: ignore[reportMissingImports]

    text = zipfile.ZipFile(path).read("golden_dataset.rdf").decode("utf-8", "replace")
    blocks = text.replace("\r\n", "\n").split("$RFMT")[1::every]
    pairs, gold = list[Sentence](), list[Links]()
    for block in blocks:
        written = block[block.index("$RXN") :].split("$DTYPE")[0]
        reaction: Any = AllChem.ReactionFromRxnBlock(written, sanitize=False)
        source, source_atoms = side(reaction.GetReactants())
        target, target_atoms = side(reaction.GetProducts())
        pairs.append(Sentence(" ".join(source), target=" ".join(target)))
        gold.append(links(source_atoms, target_atoms))
    return Corpus.from_sentences(pairs), gold


def main(model: str, path: str, every: str = "1") -> None:
    pairs, gold = reactions(Path(path), int(every))
    options = AlignmentOptions(join=">>", elements="[A-Za-z[]")
    found = align(load(model), pairs, gold, options)
    print(f"{found.record.pairs:,} reactions, {found.record.cases:,} atoms of products")
    for direction in ("target->source", "target<-source", "target<->source"):
        rows = [
            row
            for row in found.rows
            if (row.level, row.quantity, row.direction) == ("head", "weights", direction)
        ]
        rows.sort(key=lambda row: -row.accuracy)
        shown = ", ".join(f"{row.head} {row.accuracy:.4f}" for row in rows[:5])
        index = rows[0].head.rpartition(".")[2]
        other = next(row for row in rows if row.head.rpartition(".")[2] != index)
        print(f"{direction}: {shown}; first of another index: {other.head} {other.accuracy:.4f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
