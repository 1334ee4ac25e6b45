"""Figures for one column of a paper: as wide as it, panels below each other, nothing cut off."""

from pathlib import Path

from headcount.core import for_column, grid_of, new_figure, panel_grid, save, styled

COLUMN = 3.3


def test_panels_are_below_each_other_in_a_column_only() -> None:
    with styled():
        _, beside = grid_of(2, 3, (6.6, 4.0), sharex="col")
        with for_column():
            figure, below = grid_of(2, 3, (6.6, 4.0), sharex="col", width_ratios=(1, 2, 1))
            panels, few = panel_grid(5, 3, (2.2, 1.6), (0.0, 0.5))
        assert new_figure(6.6, 2.0).get_figwidth() == 6.6
    starts = [axes.get_position().x0 for axes in beside.flat]
    assert len({*starts}) == 3
    assert below.shape == (2, 3) and figure.get_figwidth() == COLUMN
    for axes in (below.flat, few):
        places = [each.get_position() for each in axes]
        assert len({place.x0 for place in places}) == 1
        assert [place.y0 for place in places] == sorted((p.y0 for p in places), reverse=True)
    assert panels.get_figwidth() == COLUMN and panels.get_figheight() < 9


def test_legends_and_texts_of_a_column_fit(tmp_path: Path) -> None:
    names = [f"a method with a long name, number {number}" for number in range(3)]
    with styled(), for_column():
        figure = new_figure(5.8, 2.0)
        axes = figure.subplots()
        for name in names:
            axes.plot([0, 1], label=name)
        axes.set_title("a title that is longer than one column of a paper is wide, by far")
        axes.set_ylabel("a label that is longer than the panel is high, by far")
        figure.legend(loc="outside right upper")
        save(figure, tmp_path / "figure.svg")
        (legend,) = figure.legends
        figure.draw_without_rendering()
        assert [text.get_text() for text in legend.get_texts()] == names
        whole = figure.get_tightbbox()
        assert whole.x0 >= -0.01 and whole.x1 <= COLUMN + 0.01
        assert whole.y0 >= -0.01 and whole.y1 <= figure.get_figheight() + 0.01
        assert axes.get_position().width > 0.6
