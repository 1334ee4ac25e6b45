"""Numbers of images, by definition: loops over the patches of one image and one head.

References: Dosovitskiy et al. (2021), figure 7 and appendix D.7, https://arxiv.org/abs/2010.11929;
    positional heads: Voita et al. (2019), section 5.1; sinks: Clark et al. (2019), section 3.2
"""

import math

Map = list[list[float]]
Cases = list[tuple[int, float, float]]
"""Query, weight or hit, and what even attention has there."""


def place(token: int, columns: int, special: int) -> tuple[int, int] | None:
    """Row and column of a token; None for tokens that are no patch."""
    patch = token - special
    return None if patch < 0 else (patch // columns, patch % columns)


def patches(A: Map, columns: int, special: int) -> dict[int, tuple[int, int]]:
    """The place of every patch, by token."""
    found = {token: place(token, columns, special) for token in range(len(A))}
    return {token: where for token, where in found.items() if where is not None}


def distance(A: Map, query: int, columns: int, special: int) -> float:
    """Mean distance of a patch to the patches, weighted by attention, in patches."""
    places = patches(A, columns, special)
    total = sum(A[query][key] for key in places)
    far = (A[query][key] * math.dist(places[query], places[key]) for key in places)
    return sum(far) / total


def mean_distance(maps: list[Map], columns: int, special: int) -> float:
    """The mean attention distance of a head over all patches of some images."""
    found = [
        distance(A, query, columns, special) for A in maps for query in patches(A, columns, special)
    ]
    return sum(found) / len(found)


def mean_weight(maps: list[Map], columns: int, special: int, name: str) -> float:
    """Mean weight on one kind of key, by the name of its column."""
    found = []
    for A in maps:
        places = patches(A, columns, special)
        for query in range(len(A)):
            if name == "attn_self":
                found.append(A[query][query])
            elif name == "attn_class":
                found.append(A[query][0])
            elif query in places:
                row, column = places[query]
                found.append(
                    sum(
                        A[query][key]
                        for key, (r, c) in places.items()
                        if {
                            "attn_left": (r, c) == (row, column - 1),
                            "attn_right": (r, c) == (row, column + 1),
                            "attn_above": (r, c) == (row - 1, column),
                            "attn_below": (r, c) == (row + 1, column),
                            "attn_row": r == row,
                            "attn_column": c == column,
                        }[name]
                    )
                )
    return sum(found) / len(found)


def looks(A: Map, columns: int, special: int, displacement: tuple[int, int]) -> Cases:
    """Whether each patch looks most at the patch at a displacement, where there is one.

    Without special tokens the first patch, on which heads may rest, is no key and no target.
    """
    places = patches(A, columns, special)
    keys = [key for key in places if key > 0]
    cases = []
    for query, (row, column) in places.items():
        target = (row + displacement[0], column + displacement[1])
        if not any(places[key] == target for key in keys):
            continue
        best = max(keys, key=lambda key, query=query: (A[query][key], -key))
        cases.append((query, float(places[best] == target), 1 / len(keys)))
    return cases


def trait(A: Map, columns: int, special: int, name: str) -> Cases:
    """Weight on a class of keys, or closeness, for each case."""
    places = patches(A, columns, special)
    if name == "class":
        return [(query, A[query][0], 1 / len(A)) for query in range(1, len(A)) if special]
    if name == "near":
        even = [[1.0] * len(A) for _ in A]
        by_even = {query: distance(even, query, columns, special) for query in places}
        return [
            (query, 1 - distance(A, query, columns, special) / by_even[query], 0.0)
            for query in places
        ]
    axis = {"row": 0, "column": 1}[name]
    cases = []
    for query, where in places.items():
        line = [key for key in places if places[key][axis] == where[axis]]
        cases.append((query, sum(A[query][key] for key in line), len(line) / len(A)))
    return cases


def line_null(maps: list[Map], counted: list[Map], columns: int, special: int, name: str) -> float:
    """The weight on lines that small displacements give a head.

    Args:
        maps: maps of which the head's habits are means.
        counted: maps whose queries are cases.
        columns: number of patches in a row.
        special: number of special tokens.
        name: `row` or `column`.
    """
    axis = {"row": 0, "column": 1}[name]

    def displacement(query: int, key: int, A: Map) -> tuple[int, int] | None:
        (row, column), (r, c) = (patches(A, columns, special)[each] for each in (query, key))
        near = (r - row, c - column)
        return near if max(map(abs, near)) <= 1 else None

    weights: dict[tuple[int, int] | None, list[float]] = {}
    for A in maps:
        for query in patches(A, columns, special):
            for key in patches(A, columns, special):
                weights.setdefault(displacement(query, key, A), []).append(A[query][key])
    habit = {each: sum(found) / len(found) for each, found in weights.items()}
    total, cases = 0.0, 0
    for A in counted:
        places = patches(A, columns, special)
        for query in places:
            cases += 1
            line = (key for key in places if places[key][axis] == places[query][axis])
            total += sum(habit[displacement(query, key, A)] for key in line)
    return total / cases


def spot(A: Map, special: int, patch: int) -> tuple[float, int]:
    """Summed weight of all tokens on one patch, and the number of tokens."""
    return sum(row[special + patch] for row in A), len(A)
