"""What a notebook shows of a labelled fit: its summary, and the map of its regions beside it."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from ctfa.core.types import IntArray
from ctfa.estimators.shown import block
from ctfa.plotting._axes import COLOURS
from ctfa.plotting._groups_map import colours_of
from ctfa.report import Places
from ctfa.report._places import Rings, drawing_of, thinned

#: Width and height of a map at most, in pixels.
WIDE, HIGH = 360, 300
#: Outlines are drawn with so many corners; more dots than this are pixels.
CORNERS, DOTS = 12_000, 1500
#: A pixel with no dot nearer than so many pixels stays empty.
NEAR = 1.6
#: Whole numbers to which the corners of a drawing go.
GRID = 65535


def page(fit: Any) -> str:
    """The summary, with the map where it is known where tasks lie."""
    title, *lines = (line.strip() for line in fit.summary().split("\n"))
    where = fit.places()
    aside = "" if where is None else picture(where, fit.estimator.partition_)
    return block(title, lines, aside)


def picture(where: Places, partition: Any) -> str:
    """Regions on a map, neighbours in different colours; an SVG without anything from outside."""
    drawn = drawing_of(where)
    west, south, east, north = drawn.box
    across, up = max((east - west) * drawn.squeeze, 1e-12), max(north - south, 1e-12)
    scale = min(WIDE / across, HIGH / up)
    width, height = max(across * scale, 8.0), max(up * scale, 8.0)
    pairs = drawn.pairs
    if drawn.kind != "dots":
        rings = np.repeat(drawn.owner, np.diff(drawn.starts))
        inside = drawn.across < partition.n_variables
        pairs = np.column_stack([rings, drawn.across])[inside]
    colour = (colours_of(partition, pairs) % len(COLOURS))[partition.labels]
    if drawn.kind == "outlines" and len(where.positions) < CORNERS // 4:
        drawing = _outlines(drawn, colour, width, height)
    elif drawn.kind == "dots" and len(where.positions) <= DOTS:
        drawing = _dots(drawn.corners, colour, width, height)
    else:
        drawing = _pixels(where, drawn, colour, width, height)
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' role='img' aria-label='map of the regions' "
        f"width='{width:.0f}' height='{height:.0f}' viewBox='-6 -6 {width + 12:.0f} "
        f"{height + 12:.0f}' style='max-width:100%;height:auto;flex:none'>{drawing}</svg>"
    )


def _outlines(drawn: Any, colour: IntArray, width: float, height: float) -> str:
    """One path for each colour, corners to a tenth of a pixel."""
    kept = thinned(Rings(drawn.corners, drawn.starts, drawn.owner), CORNERS)
    points = kept.corners / GRID * [width, -height] + [0.0, height]
    paths = []
    for number in np.unique(colour).tolist():
        rings = np.flatnonzero(colour[kept.owner] == number)
        path = "".join(
            "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points[slice(*kept.starts[k : k + 2])])
            + "Z"
            for k in rings.tolist()
        )  # fmt: skip
        paths.append(f"<path fill='{COLOURS[number]}' d='{path}'/>")
    line = "stroke='#80808060' stroke-width='.5' fill-rule='evenodd'"
    return f"<g {line}>{''.join(paths)}</g>"


def _dots(corners: IntArray, colour: IntArray, width: float, height: float) -> str:
    points = corners / GRID * [width, -height] + [0.0, height]
    radius = float(np.clip(0.4 * np.sqrt(width * height / len(points)), 1.5, 5.0))
    circles = (
        f"<circle cx='{x:.1f}' cy='{y:.1f}' r='{radius:.1f}' fill='{COLOURS[k]}'/>"
        for (x, y), k in zip(points, colour.tolist(), strict=True)
    )
    return "".join(circles)


def _pixels(where: Places, drawn: Any, colour: IntArray, width: float, height: float) -> str:
    """A small picture: of a grid a pixel for each cell where there is room, of others the nearest.

    Tasks that fall on one pixel share it with the last.
    """
    west, south, east, north = drawn.box
    places = (np.asarray(where.positions) - [west, south]) / [
        max(east - west, 1e-12), max(north - south, 1e-12),
    ]  # fmt: skip
    if where.cell is not None:
        cells = np.array([(east - west) / where.cell[0], (north - south) / where.cell[1]])
        shape = np.clip(np.rint(cells), 1, [WIDE, HIGH]).astype(int)
    else:
        shape = np.array([int(width), int(height)])
    at = np.minimum((places * shape).astype(int), shape - 1)
    image = np.zeros((shape[1], shape[0]), dtype=np.uint8)
    if where.cell is not None:
        image[shape[1] - 1 - at[:, 1], at[:, 0]] = colour + 1
    else:
        rows, columns = np.indices(image.shape)
        pixels = np.column_stack([columns.ravel(), shape[1] - 1 - rows.ravel()])
        off, near = cKDTree(places * shape).query(pixels + 0.5)
        spread = NEAR * max(1.0, np.sqrt(np.prod(shape) / len(places)))
        image[rows.ravel(), columns.ravel()] = np.where(off <= spread, colour[near] + 1, 0)
    data = base64.b64encode(_png(image)).decode("ascii")
    return (
        f"<image width='{width:.1f}' height='{height:.1f}' preserveAspectRatio='none' "
        f"style='image-rendering:pixelated' href='data:image/png;base64,{data}'/>"
    )


def _png(image: Any) -> bytes:
    """An image of colours, 0 nothing, as PNG."""
    palette = b"\0\0\0" + b"".join(bytes.fromhex(colour[1:]) for colour in COLOURS)
    rows = np.column_stack([np.zeros(len(image), dtype=np.uint8), image])
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", image.shape[1], image.shape[0], 8, 3, 0, 0, 0)),
        (b"PLTE", palette),
        (b"tRNS", b"\0"),
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
        (b"IEND", b""),
    )
    held = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(held)
