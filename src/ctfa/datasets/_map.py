"""An invented map: cells that fill a box, their neighbours, and regions without islands."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from scipy.spatial import Voronoi

from ctfa.core.types import FloatArray, IntArray

#: The box in degrees, west to east and south to north: about Europe.
BOX = np.array([[-10.0, 30.0], [36.0, 70.0]])
#: How far a point strays from the middle of its square, in squares: never out of it.
STRAY = 0.4
#: Squares from a side within which points are mirrored at it. Cells at a side are far nearer.
MIRRORED = 8.0


@dataclass(frozen=True, eq=False)
class Map:
    """Points in the box, the cells of all that is nearest to each, and who touches whom."""

    points: FloatArray  # (L, 2): longitude, latitude
    graph: sparse.csr_array  # symmetric, ones where two cells share a side
    cells: Voronoi

    @classmethod
    def drawn(cls, n_points: int, rng: np.random.Generator) -> Map:
        """Draw points a little irregularly, and divide the box among them."""
        width, height = np.ptp(BOX, axis=1)
        n_columns = int(np.ceil(np.sqrt(n_points * width / height)))
        n_rows = int(np.ceil(n_points / n_columns))
        square = np.array([width / n_columns, height / n_rows])
        taken = np.sort(rng.permutation(n_columns * n_rows)[:n_points])
        middle = np.column_stack((taken % n_columns, taken // n_columns)) + 0.5
        stray = rng.uniform(-STRAY, STRAY, size=(n_points, 2))
        points = BOX[:, 0] + (middle + stray) * square
        cells = Voronoi(np.concatenate((points, *_mirrored(points, MIRRORED * square))))
        sides = cells.ridge_points
        sides = sides[(sides < n_points).all(axis=1)]
        both = np.concatenate((sides, sides[:, ::-1]))
        ones = np.ones(len(both))
        graph = sparse.csr_array((ones, (both[:, 0], both[:, 1])), shape=(n_points, n_points))
        graph.data[:] = 1.0  # a pair that was listed twice
        return cls(points, graph, cells)

    @property
    def unit_points(self) -> FloatArray:
        """Points in units of the box."""
        return np.asarray((self.points - BOX[:, 0]) / np.ptp(BOX, axis=1))

    def polygons(self) -> list[FloatArray]:
        """Corners of each cell, counterclockwise."""
        # Mirrored points make the sides of the box sides of cells; what is left is rounding.
        corners = np.clip(self.cells.vertices, BOX[:, 0], BOX[:, 1])
        outlines = []
        for point, region in zip(self.points, self.cells.point_region, strict=False):
            outline = corners[self.cells.regions[region]]
            around = outline - point
            outlines.append(outline[np.argsort(np.arctan2(around[:, 1], around[:, 0]))])
        return outlines

    def regions(self, n_regions: int, rng: np.random.Generator) -> IntArray:
        """Give each cell to the seed it is nearest to, along paths whose lengths are random.

        A cell on the way to a seed is nearer to it still, so a region is never in pieces.
        """
        seeds = [int(rng.integers(len(self.points)))]
        far = np.full(len(self.points), np.inf)
        while len(seeds) < n_regions:
            gap = self.unit_points - self.unit_points[seeds[-1]]
            far = np.minimum(far, np.einsum("ij,ij->i", gap, gap))
            seeds.append(int(rng.choice(len(far), p=far / far.sum())))
        edges = sparse.triu(self.graph).tocoo()
        # Of very different lengths, so that borders wind.
        lengths = rng.exponential(size=edges.nnz) + 0.1
        graph = sparse.csr_array((lengths, (edges.row, edges.col)), shape=self.graph.shape)
        _, _, source = csgraph.dijkstra(
            graph, directed=False, indices=seeds, min_only=True, return_predecessors=True
        )
        label = np.empty(len(far), dtype=np.intp)
        label[seeds] = np.arange(n_regions)
        return np.asarray(label[source])


def _mirrored(points: FloatArray, reach: FloatArray) -> list[FloatArray]:
    """Points near each side of the box, mirrored at it: their cells then end there."""
    images = []
    for axis in (0, 1):
        for side in BOX[axis]:
            near = points[np.abs(points[:, axis] - side) < reach[axis]].copy()
            near[:, axis] = 2.0 * side - near[:, axis]
            images.append(near)
    return images
