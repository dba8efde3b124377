// The map: targets in the colour of what was asked for, borders of groups, and what is selected.
const mapWrap = byId("map-wrap"),
  mapCanvas = byId("map"),
  overlay = byId("overlay");
const tip = byId("tip");
const choices = colourings();
let hovered = -1,
  drawnAt = null,
  slow = false,
  redrawTimer = 0,
  frame = 0;

// While a page is printed the map stays as it was on the screen, and is scaled: what is drawn on a
// canvas after the printing began does not reach the paper.
function paper(begins) {
  mapWrap.classList.toggle("printing", begins);
  if (!begins) redrawAll();
}
const onPaper = () => mapWrap.classList.contains("printing");

const coloured = () => choices.find((choice) => choice.id === state.colour);

// Colour number of each target, and the colours.
function paint() {
  const choice = coloured();
  if (choice.id === "group") {
    const colours = [...PALETTE, theme.alone];
    const { labels, colour } = state.groups;
    const of = Uint8Array.from(labels, (g) => (colour[g] === ALONE ? PALETTE.length : colour[g]));
    return { of, colours };
  }
  if (choice.id === "coefficient") choice.values = coefficientOfTargets(state.feature);
  const scale = scaleOf(choice);
  return { of: Uint8Array.from(choice.values, scale.bin), colours: scale.colours, scale };
}

function sized(canvas) {
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  const width = Math.round(view.width * ratio),
    height = Math.round(view.height * ratio);
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, view.width, view.height);
  context.lineJoin = "round";
  return context;
}

function drawMap() {
  const began = performance.now();
  const context = sized(mapCanvas),
    at = lens(),
    radius = dotRadius();
  const { of, colours, scale } = paint();
  const byColour = colours.map(() => []);
  for (let i = 0; i < nTargets; i++) byColour[of[i]].push(i);
  const area = (at.a * GRID * at.b * GRID) / nTargets;
  byColour.forEach((targets, c) => {
    context.fillStyle = context.strokeStyle = colours[c];
    context.lineWidth = 0.7;
    const whole = targets.filter((i) => ringsOf[i + 1] - ringsOf[i] === 1);
    for (let from = 0; from < whole.length; from += 400) {
      fillTargets(context, whole.slice(from, from + 400), at, radius, "nonzero");
    }
    // Rings inside rings are holes.
    for (const i of targets) {
      if (ringsOf[i + 1] - ringsOf[i] > 1) fillTargets(context, [i], at, radius, "evenodd");
    }
  });
  if (!isDots) {
    if (area > 90) strokeTargets(context, at);
    context.beginPath();
    addBorders(context, state.groups.labels, at);
    context.strokeStyle = theme.edge;
    context.lineWidth = area > 30 ? 1.2 : 0.5;
    context.stroke();
  }
  writeLabels(context, at, area);
  drawnAt = at;
  mapCanvas.style.transform = "";
  slow = performance.now() - began > 40;
  drawOverlay();
  drawLegend(scale);
}

function fillTargets(context, targets, at, radius, rule) {
  context.beginPath();
  for (const target of targets) addTarget(context, target, at, radius);
  context.fill(rule);
  // A line of the same colour closes the seams between neighbours.
  if (!isDots) context.stroke();
}

// Members told apart where there is room for it.
function strokeTargets(context, at) {
  context.beginPath();
  for (let i = 0; i < nTargets; i++) addTarget(context, i, at, 0);
  context.strokeStyle = theme.paper;
  context.lineWidth = 0.5;
  context.globalAlpha = theme.dark ? 0.35 : 0.7;
  context.stroke();
  context.globalAlpha = 1;
}

function writeLabels(context, at, area) {
  const { groups } = state;
  context.font = "600 12px system-ui, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "middle";
  if (drawing.kind === "tiles" && at.a * GRID > 0) return writeNames(context, at, area);
  const named = [];
  for (let g = 0; g < groups.n && named.length <= 90; g++) if (groups.size(g) > 1) named.push(g);
  if (named.length > 90 || state.colour !== "group") return;
  for (const g of named) {
    if (groups.size(g) * area < 320) continue;
    halo(context, String(g), ...pointIn(groups.members(g), at));
  }
}

function writeNames(context, at, area) {
  const side = Math.sqrt(area);
  if (side < 34) return;
  context.font = `500 ${side > 80 ? 12 : 10}px system-ui, sans-serif`;
  const fits = Math.floor(side / (side > 80 ? 6.6 : 5.6));
  for (let i = 0; i < nTargets; i++) {
    const name = page.names[i];
    const text = name.length > fits ? `${name.slice(0, Math.max(1, fits - 1))}\u2026` : name;
    context.fillStyle = inkOn(i);
    context.fillText(text, at.left + at.a * middle[2 * i], at.top - at.b * middle[2 * i + 1]);
  }
}

// Black on light colours, white on dark ones.
function inkOn() {
  return state.colour === "group" && !theme.dark ? "#1b1f24" : theme.ink;
}

function halo(context, text, x, y) {
  context.lineWidth = 3.5;
  context.strokeStyle = "rgba(255,255,255,0.75)";
  context.strokeText(text, x, y);
  context.fillStyle = "#1b1f24";
  context.fillText(text, x, y);
}

// A point in the group: the middle of the member nearest to the middle of all.
function pointIn(members, at) {
  let x = 0,
    y = 0;
  for (const i of members) {
    x += middle[2 * i];
    y += middle[2 * i + 1];
  }
  x /= members.length;
  y /= members.length;
  let best = members[0],
    least = Infinity;
  for (const i of members) {
    const far = (middle[2 * i] - x) ** 2 + (middle[2 * i + 1] - y) ** 2;
    if (far < least) {
      least = far;
      best = i;
    }
  }
  return [at.left + at.a * middle[2 * best], at.top - at.b * middle[2 * best + 1]];
}

function drawOverlay() {
  const context = sized(overlay),
    at = lens(),
    radius = dotRadius();
  const group = selectedGroup();
  context.beginPath();
  if (isDots) for (const i of state.groups.members(group)) addTarget(context, i, at, radius + 1);
  else addBorders(context, state.groups.labels, at, group);
  context.lineWidth = 5;
  context.strokeStyle = theme.paper;
  context.globalAlpha = 0.85;
  context.stroke();
  context.globalAlpha = 1;
  context.lineWidth = 2.2;
  context.strokeStyle = theme.ink;
  context.stroke();
  if (hovered >= 0) {
    context.beginPath();
    addTarget(context, hovered, at, radius + 2);
    context.lineWidth = 1.6;
    context.stroke();
  }
}

// Move what is drawn at once, and draw it again as soon as there is time.
function viewChanged() {
  if (!slow) {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(drawMap);
    return;
  }
  const at = lens(),
    scale = at.a / drawnAt.a;
  mapCanvas.style.transformOrigin = "0 0";
  mapCanvas.style.transform = `translate(${at.left - drawnAt.left * scale}px, ${
    at.top - drawnAt.top * scale
  }px) scale(${scale})`;
  drawOverlay();
  clearTimeout(redrawTimer);
  redrawTimer = setTimeout(drawMap, 140);
}

function zoomBy(factor, x = view.width / 2, y = view.height / 2) {
  const before = lens();
  const zoom = Math.max(1, Math.min(200, view.zoom * factor));
  const column = (x - before.left) / before.a,
    row = (before.top - y) / before.b;
  view.zoom = zoom;
  const at = lens();
  // The point under the pointer stays where it is.
  view.x += (column - (x - at.left) / at.a) / GRID;
  view.y += (row - (at.top - y) / at.b) / GRID;
  keepInSight();
  viewChanged();
}

function panBy(dx, dy) {
  const at = lens();
  view.x -= dx / at.a / GRID;
  view.y += dy / at.b / GRID;
  keepInSight();
  viewChanged();
}

function keepInSight() {
  if (view.zoom === 1) {
    view.x = view.y = 0.5;
  }
  view.x = Math.max(0, Math.min(1, view.x));
  view.y = Math.max(0, Math.min(1, view.y));
}

// Rows of tiles; those of few targets need not fill the page.
const tileRows = () => drawing.box[3] - drawing.box[1];

function measureMap() {
  const shape = extent.height / extent.width,
    stage = document.querySelector(".stage");
  // Beside a map that is tall there is room for the slider.
  stage.classList.toggle("tall", shape > 0.8 && stage.clientWidth > 760);
  view.width = mapWrap.clientWidth;
  const room = Math.max(340, Math.min(window.innerHeight * 0.68, 640));
  view.height = Math.round(Math.max(200, Math.min(room, view.width * shape + 2 * MARGIN)));
  if (drawing.kind === "tiles")
    view.height = Math.min(view.height, Math.round(tileRows() * 84) + 2 * MARGIN);
  mapWrap.style.height = `${view.height}px`;
}
