"""Pictures: neighbouring routes look different, and no solution breaks the drawing."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from clusterfirst.files.picture import PALETTE, draw, route_looks, write_picture
from clusterfirst.problem.errors import InputError
from clusterfirst.problem.instance import FloatArray, Instance
from clusterfirst.problem.solution import Solution


def day(count: int, *, metric: str = "euclidean", seed: int = 0) -> Instance:
    """An instance with every demand 1 and room for 5 customers."""
    points = np.random.default_rng(seed).random((count + 1, 2))
    return Instance(
        demands=np.array([0] + [1] * count),
        capacity=5,
        coords=points + np.array([2.0, 48.0]) if metric == "greatcircle" else points,
        metric=metric,  # type: ignore[arg-type]  # one of the two names above
        name="a day with $ and _ in its name",
    )


def by_angle(instance: Instance, size: int = 5) -> Solution:
    """Routes of `size` customers in the order of their angle."""
    points = instance.plane
    turned = np.argsort(np.arctan2(*(points[1:] - points[0]).T)) + 1
    return Solution(turned[i : i + size] for i in range(0, len(turned), size))


def grid_of_routes(side: int) -> tuple[FloatArray, Solution]:
    """side x side routes, each a little square in its own cell of a grid."""
    corners = np.array([[0.2, 0.2], [0.8, 0.2], [0.8, 0.8], [0.2, 0.8]])
    cells = np.array([[x, y] for x in range(side) for y in range(side)])
    points = (cells[:, None] + corners).reshape(-1, 2)
    routes = np.arange(1, len(points) + 1).reshape(-1, 4)
    return np.vstack([[0.0, -1.0], points]), Solution(routes.tolist())


def oklab(colour: str) -> FloatArray:
    """Perceptual coordinates of #rrggbb (Ottosson 2020)."""
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    cones = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    )
    to_lab = np.array(
        [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ]
    )
    lab: FloatArray = to_lab @ np.cbrt(cones @ linear)
    return lab


def test_colours_of_the_palette_differ_to_the_eye() -> None:
    """Any two colours are far apart in OKLab, and none is lost on white paper."""
    for a, b in combinations(PALETTE, 2):
        assert np.linalg.norm(oklab(a) - oklab(b)) >= 0.14, (a, b)
    assert max(oklab(colour)[0] for colour in PALETTE) < 0.85


def test_neighbouring_routes_differ_in_colour_with_100_routes() -> None:
    """On a 10 x 10 grid of routes the eight around each one have other colours."""
    side = 10
    points, solution = grid_of_routes(side)
    looks = route_looks(points, solution)
    for a, b in combinations(range(side * side), 2):
        ax, ay, bx, by = a // side, a % side, b // side, b % side
        if max(abs(ax - bx), abs(ay - by)) == 1:
            assert looks[a][0] != looks[b][0], (a, b)


def test_routes_on_one_spot_get_line_styles_when_colours_run_out() -> None:
    """Twenty routes that all overlap still look different from each other."""
    points = np.zeros((21, 2))
    looks = route_looks(points, Solution([c] for c in range(1, 21)))
    assert len(set(map(str, looks))) == 20


@pytest.mark.parametrize("suffix", [".png", ".svg"])
@pytest.mark.parametrize("metric", ["euclidean", "greatcircle"])
def test_the_same_routes_give_the_same_bytes(
    tmp_path: Path, suffix: str, metric: str
) -> None:
    """Pictures can be compared and cached: nothing in them depends on the clock."""
    instance = day(23, metric=metric)
    for name in ("a", "b"):
        write_picture(tmp_path / f"{name}{suffix}", instance, by_angle(instance))
    data = (tmp_path / f"a{suffix}").read_bytes()
    assert data == (tmp_path / f"b{suffix}").read_bytes()
    assert data.startswith(b"\x89PNG" if suffix == ".png" else b"<?xml")


@pytest.mark.parametrize(
    "routes",
    [[], [[]], [[1]], [[1, 2], [], [3]], [[0, 99, -1]], [[1, 1, 1]], [[1, 2, 3, 4]]],
    ids=str,
)
def test_any_solution_can_be_drawn(tmp_path: Path, routes: list[list[int]]) -> None:
    """No routes, empty, wrong and overloaded routes are drawn as far as they go."""
    write_picture(tmp_path / "a.png", day(6).replace(capacity=2), Solution(routes))
    assert (tmp_path / "a.png").stat().st_size > 1000


@pytest.mark.parametrize("count", [0, 1, 2])
def test_tiny_and_flat_instances_can_be_drawn(tmp_path: Path, count: int) -> None:
    """No customers, one customer, and all places the same."""
    for metric in ("euclidean", "greatcircle"):
        instance = day(count, metric=metric)
        flat = instance.replace(coords=np.ones((count + 1, 2)))
        for number, drawn in enumerate((instance, flat)):
            path = tmp_path / f"{number}.svg"
            write_picture(path, drawn, Solution([[c] for c in range(1, count + 1)]))


def test_few_routes_are_numbered_and_show_their_loads() -> None:
    """Each of three routes and its stops are numbered; its load is at its bar."""
    instance = day(12)
    left, right = draw(instance, by_angle(instance)).axes
    said = [text.get_text() for text in left.texts]
    assert [word for word in said if word][:3] == ["1", "2", "3"]
    stops = [str(k + 1) for r in by_angle(instance).routes for k in range(len(r))]
    assert [word for word in said if word][3:] == stops
    assert said.count("") > 3  # arrows are notes without a word
    assert [text.get_text() for text in right.texts] == ["5", "5", "2"]


def test_a_bare_matrix_cannot_be_drawn(tmp_path: Path) -> None:
    """The refusal is a sentence, and nothing is written."""
    instance = Instance(
        demands=np.array([0, 1]),
        capacity=1,
        matrix=np.array([[0.0, 1.0], [1.0, 0.0]]),
        metric="matrix",
    )
    with pytest.raises(InputError, match=r"E141 .*picture needs coordinates"):
        write_picture(tmp_path / "a.png", instance, Solution([[1]]))
    with pytest.raises(InputError, match=r"E106 .*pdf"):
        write_picture(tmp_path / "a.pdf", day(3), Solution([[1]]))
    assert list(tmp_path.iterdir()) == []
