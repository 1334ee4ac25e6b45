"""Where the patches of a picture stand in the row that a tower reads, by loops."""

import numpy as np


def by_squares(rows: int, columns: int, side: int) -> list[int]:
    """The numbers of patches, square by square of `side` x `side`, line by line in each."""
    return [
        (square_y * side + y) * columns + square_x * side + x
        for square_y in range(rows // side)
        for square_x in range(columns // side)
        for y in range(side)
        for x in range(side)
    ]


def by_windows(rows: int, columns: int, side: int, window: int) -> list[int]:
    """The same, first by windows of `window` x `window` squares."""
    found = []
    down, across = rows // side, columns // side
    for window_y in range(0, down, window):
        for window_x in range(0, across, window):
            for square_y in range(window_y, min(window_y + window, down)):
                for square_x in range(window_x, min(window_x + window, across)):
                    for y in range(side):
                        for x in range(side):
                            row, column = square_y * side + y, square_x * side + x
                            found.append(row * columns + column)
    return found


def whole_map(parts: list[np.ndarray], patches: list[int]) -> np.ndarray:
    """A head's weights by patch, from those of windows, one after another, that see themselves.

    Args:
        parts: weights [query, key] of each window.
        patches: the number of the patch at each place of the row.
    """
    found = np.zeros((len(patches), len(patches)))
    begin = 0
    for part_QK in parts:
        for q in range(len(part_QK)):
            for k in range(len(part_QK)):
                found[patches[begin + q], patches[begin + k]] = part_QK[q, k]
        begin += len(part_QK)
    return found
