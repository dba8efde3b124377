// Where things are on the canvas: the view, paths of outlines and dots, and what lies under a point.
const drawing = page.drawing;
const GRID = 65535;
const isDots = drawing.kind === "dots";
const extent = (() => {
  const [west, south, east, north] = drawing.box;
  return { width: (east - west || 1) * drawing.squeeze, height: north - south || 1 };
})();

// Rings of each target: targets' rings follow each other.
const ringsOf = (() => {
  const start = new Int32Array(nTargets + 1);
  for (const target of drawing.owner) start[target + 1]++;
  for (let i = 0; i < nTargets; i++) start[i + 1] += start[i];
  return start;
})();

// How the grid lies on the canvas: x = left + a * column, y = top - b * row.
const view = { zoom: 1, x: 0.5, y: 0.5, width: 1, height: 1 };
const MARGIN = 14;

function lens() {
  const fit = Math.min(
    (view.width - 2 * MARGIN) / extent.width,
    (view.height - 2 * MARGIN) / extent.height,
  );
  const a = (fit * view.zoom * extent.width) / GRID,
    b = (fit * view.zoom * extent.height) / GRID;
  return {
    a,
    b,
    left: view.width / 2 - view.x * GRID * a,
    top: view.height / 2 + view.y * GRID * b,
  };
}

function dotRadius() {
  const { a, b } = lens();
  const each = Math.sqrt((GRID * a * GRID * b) / nTargets);
  return Math.max(1.3, Math.min(9, 0.36 * each));
}

function addTarget(context, target, at, radius) {
  const { corners, starts } = drawing;
  for (let ring = ringsOf[target]; ring < ringsOf[target + 1]; ring++) {
    let k = starts[ring];
    const x = at.left + at.a * corners[2 * k],
      y = at.top - at.b * corners[2 * k + 1];
    if (isDots) {
      context.moveTo(x + radius, y);
      context.arc(x, y, radius, 0, 2 * Math.PI);
      continue;
    }
    context.moveTo(x, y);
    for (k++; k < starts[ring + 1]; k++) {
      context.lineTo(at.left + at.a * corners[2 * k], at.top - at.b * corners[2 * k + 1]);
    }
    // Not closePath, which is slow in paths of many rings.
    context.lineTo(x, y);
  }
}

// Sides between groups, and those at the edge of the map; of one group where it is given.
function addBorders(context, labels, at, only = -1) {
  const { corners, starts, owner, across } = drawing;
  for (let ring = 0; ring < owner.length; ring++) {
    const group = labels[owner[ring]];
    if (only >= 0 && group !== only) continue;
    const first = starts[ring],
      end = starts[ring + 1];
    let open = false;
    for (let k = first; k < end; k++) {
      const there = across[k];
      const border =
        there >= nTargets || (only >= 0 ? labels[there] !== group : labels[there] > group);
      if (!border) {
        open = false;
        continue;
      }
      if (!open)
        context.moveTo(at.left + at.a * corners[2 * k], at.top - at.b * corners[2 * k + 1]);
      const next = k + 1 < end ? k + 1 : first;
      context.lineTo(at.left + at.a * corners[2 * next], at.top - at.b * corners[2 * next + 1]);
      open = true;
    }
  }
}

// The middle of each target's first ring, on the grid.
const middle = (() => {
  const { corners, starts } = drawing;
  const found = new Float32Array(2 * nTargets);
  for (let i = 0; i < nTargets; i++) {
    const ring = ringsOf[i];
    if (ring === ringsOf[i + 1]) {
      found[2 * i] = found[2 * i + 1] = -GRID;
      continue;
    }
    let x = 0,
      y = 0;
    for (let k = starts[ring]; k < starts[ring + 1]; k++) {
      x += corners[2 * k];
      y += corners[2 * k + 1];
    }
    const n = starts[ring + 1] - starts[ring];
    found[2 * i] = x / n;
    found[2 * i + 1] = y / n;
  }
  return found;
})();

// Targets by the squares of a coarse grid that they reach into.
const SQUARES = 96;
let squares = null;

function squaresOf() {
  const lists = Array.from({ length: SQUARES * SQUARES }, () => []);
  const { corners, starts, owner } = drawing;
  const square = (v) => Math.min(SQUARES - 1, Math.max(0, Math.floor((v / (GRID + 1)) * SQUARES)));
  for (let ring = 0; ring < owner.length; ring++) {
    let [x0, y0, x1, y1] = [GRID, GRID, 0, 0];
    for (let k = starts[ring]; k < starts[ring + 1]; k++) {
      x0 = Math.min(x0, corners[2 * k]);
      x1 = Math.max(x1, corners[2 * k]);
      y0 = Math.min(y0, corners[2 * k + 1]);
      y1 = Math.max(y1, corners[2 * k + 1]);
    }
    for (let row = square(y0); row <= square(y1); row++) {
      for (let column = square(x0); column <= square(x1); column++) {
        lists[row * SQUARES + column].push(owner[ring]);
      }
    }
  }
  return lists;
}

// The target at a point of the canvas, or -1.
function targetAt(x, y) {
  const at = lens();
  const column = (x - at.left) / at.a,
    row = (at.top - y) / at.b;
  if (isDots) return nearestDot(column, row, at);
  squares ||= squaresOf();
  if (column < 0 || row < 0 || column > GRID || row > GRID) return -1;
  const square = (v) => Math.min(SQUARES - 1, Math.floor((v / (GRID + 1)) * SQUARES));
  const here = squares[square(row) * SQUARES + square(column)];
  for (const target of here) if (isInside(target, column, row)) return target;
  return -1;
}

function isInside(target, x, y) {
  const { corners, starts } = drawing;
  let inside = false;
  for (let ring = ringsOf[target]; ring < ringsOf[target + 1]; ring++) {
    const first = starts[ring],
      end = starts[ring + 1];
    for (let k = first, before = end - 1; k < end; before = k++) {
      const y0 = corners[2 * k + 1],
        y1 = corners[2 * before + 1];
      if (y0 > y === y1 > y) continue;
      const x0 = corners[2 * k],
        x1 = corners[2 * before];
      if (x < x0 + ((y - y0) / (y1 - y0)) * (x1 - x0)) inside = !inside;
    }
  }
  return inside;
}

function nearestDot(column, row, at) {
  let best = -1,
    least = (dotRadius() + 6) ** 2;
  for (let i = 0; i < nTargets; i++) {
    const far = ((middle[2 * i] - column) * at.a) ** 2 + ((middle[2 * i + 1] - row) * at.b) ** 2;
    if (far < least) {
      least = far;
      best = i;
    }
  }
  return best;
}
