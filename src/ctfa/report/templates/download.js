// Files made here from the data in the page.
function save(name, type, text) {
  const link = element("a", {
    href: URL.createObjectURL(new Blob([text], { type })),
    download: name,
  });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// Text that no spreadsheet takes for a formula, as ctfa writes it to every CSV file: a quote before
// what would begin one, also after a semicolon. Numbers stay as they are.
const FORMULA = /(^|;)('*)(?=[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])/g;
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

function csvCell(v) {
  if (typeof v === "string" && !NUMBER.test(v)) return v.replace(FORMULA, "$1'$2");
  return v === null || v === undefined || Number.isNaN(v) ? "" : String(v);
}

function csv(rows) {
  const quoted = (v) => {
    const text = csvCell(v);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n";
}

// Groups at the limit shown, and what is known of each target at the chosen one.
function targetsCsv() {
  const { gain, gain_error: spread, trust, stability, errors, zeros, skills } = page.targets;
  const columns = [
    ["target", page.names],
    ["group", state.groups.labels],
  ];
  if (state.step !== chosenStep) columns.push(["chosen_group", page.labels]);
  for (const [method, values] of Object.entries({ ...errors, ...zeros }))
    columns.push([`error_${method.replace(/\W+/g, "_")}`, values]);
  for (const [name, values] of [
    ...Object.entries(skills).map(([name, values]) => [name.replaceAll(" ", "_"), values]),
    [page.gain_name.replace(/ /g, "_"), gain],
    [`${page.gain_name.replace(/ /g, "_")}_error`, spread],
    ["trust", trust],
    ["stability", stability],
  ]) {
    if (values) columns.push([name, values]);
  }
  return csv([
    columns.map(([name]) => name),
    ...page.names.map((_, i) => columns.map(([, values]) => values[i])),
  ]);
}

function mergesCsv() {
  const { evidence } = page;
  const known = evidence
    ? [
        ["gain", evidence.gain],
        ["gain_error", evidence.gain_error],
        ...(evidence.score ? [["score", evidence.score]] : []),
        ["f_statistic", evidence.f],
        ["f_star", evidence.f_star],
        ["variance_saved", evidence.saved],
        ["bias_paid", evidence.paid],
        ["n_losers", evidence.n_losers],
      ]
    : [];
  const rows = [["step", "block", "other", "loss", "within_limit", ...known.map(([name]) => name)]];
  for (let i = 0; i < merges.n; i++) {
    rows.push([
      i,
      page.names[merges.block[i]],
      page.names[merges.other[i]],
      merges.loss[i],
      i < chosenStep,
      ...known.map(([, values]) => (i < values.length ? values[i] : "")),
    ]);
  }
  return csv(rows);
}

function place(k) {
  const [west, south, east, north] = drawing.box;
  const round = (v) => Number(v.toPrecision(8));
  return [
    round(west + ((east - west) * drawing.corners[2 * k]) / GRID),
    round(south + ((north - south) * drawing.corners[2 * k + 1]) / GRID),
  ];
}

// Outer rings of a target, each with its holes.
function polygonsOf(target) {
  const rings = [];
  for (let ring = ringsOf[target]; ring < ringsOf[target + 1]; ring++) {
    const corners = [];
    for (let k = drawing.starts[ring]; k < drawing.starts[ring + 1]; k++) corners.push(place(k));
    if (corners.length > 2) rings.push([...corners, corners[0]]);
  }
  const holds = (outer, [x, y]) =>
    outer.reduce((inside, [x0, y0], k) => {
      const [x1, y1] = outer[(k + 1) % outer.length];
      return y0 > y !== y1 > y && x < x0 + ((y - y0) / (y1 - y0)) * (x1 - x0) ? !inside : inside;
    }, false);
  const isHole = rings.map(
    (ring, a) => rings.filter((other, b) => a !== b && holds(other, ring[0])).length % 2 === 1,
  );
  return rings.flatMap((ring, a) =>
    isHole[a] ? [] : [[ring, ...rings.filter((hole, b) => isHole[b] && holds(ring, hole[0]))]],
  );
}

function regionsGeoJson() {
  const features = [];
  for (let g = 0; g < state.groups.n; g++) {
    const members = Array.from(state.groups.members(g));
    const geometry = isDots
      ? { type: "MultiPoint", coordinates: members.map((i) => place(drawing.starts[ringsOf[i]])) }
      : { type: "MultiPolygon", coordinates: members.flatMap(polygonsOf) };
    const gain = fareOf(g);
    features.push({
      type: "Feature",
      geometry,
      properties: {
        group: g,
        size: members.length,
        members: members.map((i) => page.names[i]),
        ...(fare
          ? {
              [fare.id === "held-out" ? "held_out_gain" : "predicted_gain"]: Number.isFinite(gain)
                ? gain
                : null,
            }
          : {}),
      },
    });
  }
  return JSON.stringify({ type: "FeatureCollection", features });
}

function startDownloads() {
  const files = [
    [`${page.tasks}.csv`, "text/csv", targetsCsv],
    ["merges.csv", "text/csv", mergesCsv],
    ...(drawing.kind === "tiles"
      ? []
      : [["regions.geojson", "application/geo+json", regionsGeoJson]]),
    ["ctfa.bib", "text/x-bibtex", () => page.bibtex],
  ];
  put(
    byId("download-list"),
    ...files.map(([name, type, text]) =>
      element("button", { type: "button", onclick: () => save(name, type, text()) }, name),
    ),
  );
  byId("bibtex").textContent = page.bibtex;
}
