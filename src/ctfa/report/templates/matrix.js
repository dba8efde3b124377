// Coefficients of the groups side by side: a table whose cells are coloured.
const MOST_GROUPS = 24,
  MOST_FEATURES = 30;

function startMatrix() {
  if (!page.features || !page.features.value) {
    byId("all-groups").hidden = true;
    return;
  }
  drawMatrix();
  onChange((what) => {
    if (what.has("colour") || what.has("size") || what.has("selection")) drawMatrix();
  });
}

function drawMatrix() {
  const { names, value, units } = page.features;
  const size = (g) => chosenGroups.size(g);
  const all = Array.from(page.details).sort((a, b) => size(b) - size(a) || a - b);
  const groups = all.slice(0, MOST_GROUPS);
  const row = rowOfGroup(),
    of = (g, k) => value[row[g] * names.length + k];
  const weight = names.map((_, k) => groups.reduce((sum, g) => sum + Math.abs(of(g, k) || 0), 0));
  const columns = [...names.keys()];
  const shown =
    names.length > MOST_FEATURES
      ? columns.sort((a, b) => weight[b] - weight[a]).slice(0, MOST_FEATURES)
      : columns;
  const scale = scaleOf({
    values: Float32Array.from(groups.flatMap((g) => shown.map((k) => of(g, k)))),
    around: 0,
  });
  const chosen = atChosenLimit(selectedGroup());
  byId("matrix-facts").textContent = [
    page.features.coefficient_units,
    page.n_groups > groups.length
      ? `the ${groups.length} largest of ${count(page.n_groups)} groups`
      : "",
    names.length > shown.length
      ? `the ${shown.length} strongest of ${count(names.length)} features`
      : "",
  ]
    .filter(Boolean)
    .join(" \u00b7 ");
  put(
    byId("matrix"),
    element(
      "table",
      {},
      element(
        "thead",
        {},
        element(
          "tr",
          {},
          element("th", { scope: "col" }, "Group"),
          ...shown.map((k) =>
            element(
              "th",
              { scope: "col", class: "tilt", title: units[k] || null },
              element("span", { dir: "auto" }, names[k]),
            ),
          ),
        ),
      ),
      element(
        "tbody",
        {},
        ...groups.map((g) =>
          element(
            "tr",
            { class: g === chosen ? "here" : null },
            element(
              "th",
              { scope: "row" },
              element(
                "button",
                {
                  type: "button",
                  class: "plain",
                  onclick: () => selectTarget(chosenGroups.members(g)[0]),
                },
                matrixSwatch(g),
                size(g) === 1 ? page.names[chosenGroups.members(g)[0]] : `${g}`,
                element("span", { class: "quiet" }, ` ${count(size(g))}`),
              ),
            ),
            ...shown.map((k) => cell(of(g, k), scale)),
          ),
        ),
      ),
    ),
  );
}

function matrixSwatch(group) {
  const index = chosenGroups.colour[group];
  return swatch(index === ALONE ? theme.alone : PALETTE[index]);
}

function cell(v, scale) {
  const bin = scale.bin(v);
  const node = element("td", {}, Number.isFinite(v) ? minus(v.toFixed(2)) : "");
  if (bin === N_BINS) return node;
  node.style.background = scale.colours[bin];
  // Far from the middle colours are strong: dark on a light page, light on a dark one.
  const strong = Math.abs(bin - (N_BINS - 1) / 2) > 0.32 * N_BINS;
  node.style.color = strong !== theme.dark ? "#ffffff" : "#15181c";
  if (!strong) node.style.color = theme.dark ? "#e8eaec" : "#15181c";
  return node;
}
