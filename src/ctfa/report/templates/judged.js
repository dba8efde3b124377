// What held-out rows say: errors by method, and gains as predicted against gains as found.
function startJudged() {
  byId("judged").hidden = !page.held_out;
  if (!page.held_out) return;
  byId("judged-facts").textContent =
    `${page.held_out.how}; everything chosen again on the other rows`;
  drawJudged();
  onChange((what) => {
    if (what.has("size") || what.has("selection")) drawJudged();
  });
}

function drawJudged() {
  const { weighted, zeros, hardest } = page.held_out;
  const bars = page.held_out.methods.map((method) => [method, page.held_out.error[method]]);
  for (const zero of ["climatology", hardest])
    if (zeros[zero]) bars.push([`no features: ${zeros[zero].words}`, zeros[zero].error]);
  const most = Math.max(...bars.map(([, error]) => error).filter(Number.isFinite), 1e-12);
  const box = caption(
    "panel-methods",
    "Mean squared error by method",
    `in units of ${page.variance}, mean over ${page.tasks}${weighted ? ", by their weights" : ""}`,
  );
  put(
    box,
    element(
      "div",
      { class: "bars" },
      ...bars.flatMap(([method, error], k) => {
        const bar = svg("rect", {
          x: 0,
          y: 4,
          width: (100 * error) / most,
          height: 12,
          class: k === 0 ? "ours" : "theirs",
        });
        return [
          element("div", { class: `bar-label${k === 0 ? " here" : ""}`, dir: "auto" }, method),
          svg(
            "svg",
            {
              viewBox: "0 0 100 20",
              preserveAspectRatio: "none",
              class: "bar-svg",
              "aria-hidden": "true",
            },
            bar,
          ),
          element("div", { class: "bar-value" }, fixed(error, 3)),
        ];
      }),
    ),
  );
  drawSkills();
  const found = choices.find((c) => c.id === "held-out"),
    said = choices.find((c) => c.id === "gain");
  byId("panel-scatter").hidden = !(found && said && page.standardised);
  if (!byId("panel-scatter").hidden) drawScatter(said.values, found.values);
}

// Skill by season, by block and by group: a strip whose cells are coloured.
function drawSkills() {
  const { divisions, zeros, hardest } = page.held_out;
  byId("panel-skill").hidden = !divisions.length;
  if (!divisions.length) return;
  const against = ["climatology", ...(hardest ? ["persistence"] : [])].filter(
    (name) => name !== "climatology" || zeros.climatology,
  );
  const words = [zeros.climatology, zeros[hardest]].filter(Boolean).map(({ words }) => words);
  const box = caption(
    "panel-skill",
    "Skill in parts",
    `share of the error of ${words.join(", and of ")}, that is saved on held-out rows` +
      (divisions.some(({ covered }) => covered)
        ? "; and the share of these rows that 90 % intervals held"
        : ""),
  );
  const clipped = (v) => Math.max(-1, Math.min(1, v));
  const scale = scaleOf({
    values: Float64Array.from(divisions.flatMap(({ skills }) => skills.flatMap((s) => [...s])), clipped),
    around: 0,
  });
  const called = { season: "season", block: "held-out block", region: "group" };
  const heads = (by, covered) =>
    element(
      "tr",
      {},
      element("th", { scope: "col" }, called[by]),
      ...against.map((name) => element("th", { scope: "col" }, `over ${name}`)),
      ...(covered ? [element("th", { scope: "col" }, "in 90 % intervals")] : []),
    );
  const share = (v) => (Number.isFinite(v) ? `${(100 * v).toFixed(0)} %` : "");
  const row = (name, k, skills, covered) =>
    element(
      "tr",
      {},
      element("th", { scope: "row", dir: "auto" }, name),
      ...skills.map((values) => cell(values[k], scale)),
      ...(covered ? [element("td", {}, share(covered[k]))] : []),
    );
  put(
    box,
    element(
      "div",
      { class: "matrix skills" },
      ...divisions.map(({ by, names, skills, covered }) =>
        element(
          "table",
          {},
          element("thead", {}, heads(by, covered)),
          element("tbody", {}, ...names.map((name, k) => row(name, k, skills, covered))),
        ),
      ),
    ),
  );
}

// One dot per target; on the line a gain is found as it was predicted.
function drawScatter(said, found) {
  const box = caption(
    "panel-scatter",
    "Gain found against gain predicted",
    `one dot per ${page.task}, in percent of ${page.variance}; on the line prediction and held-out rows agree`,
  );
  const width = Math.max(280, box.clientWidth),
    height = 300,
    left = 48,
    right = 12,
    top = 10,
    base = height - 40;
  const ends = (values) => {
    const [low, high] = [quantile(values, 0.002), quantile(values, 0.998)];
    const pad = 0.06 * (high - low || 0.01);
    return [Math.min(low, 0) - pad, Math.max(high, 0) + pad];
  };
  const [x0, x1] = ends(said),
    [y0, y1] = ends(found);
  const x = (v) => left + ((v - x0) / (x1 - x0)) * (width - left - right);
  const y = (v) => base - ((v - y0) / (y1 - y0)) * (base - top);
  const parts = [];
  for (const tick of niceTicks(100 * y0, 100 * y1, 5)) {
    parts.push(
      svg("line", {
        x1: left,
        x2: width - right,
        y1: y(tick / 100),
        y2: y(tick / 100),
        class: tick === 0 ? "rule" : "grid",
      }),
      svg("text", { x: left - 8, y: y(tick / 100) + 4, class: "axis end" }, number(tick)),
    );
  }
  for (const tick of niceTicks(100 * x0, 100 * x1, 6)) {
    parts.push(
      svg("line", { x1: x(tick / 100), x2: x(tick / 100), y1: base, y2: base + 4, class: "rule" }),
      svg("text", { x: x(tick / 100), y: base + 17, class: "axis mid" }, number(tick)),
    );
  }
  parts.push(
    svg("text", { x: (left + width) / 2, y: height - 4, class: "axis mid" }, `${page.gain_name}, %`),
    svg(
      "text",
      {
        x: 12,
        y: (top + base) / 2,
        class: "axis mid",
        transform: `rotate(-90 12 ${(top + base) / 2})`,
      },
      "held-out gain, %",
    ),
  );
  const from = Math.max(x0, y0),
    to = Math.min(x1, y1);
  if (to > from)
    parts.push(svg("line", { x1: x(from), y1: y(from), x2: x(to), y2: y(to), class: "chosen" }));
  const plot = svg(
    "svg",
    {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `Held-out gain against ${page.gain_name} of ${plural(nTargets, page.task, page.tasks)}; the numbers are in the table below`,
    },
    ...parts,
  );
  const dots = element("canvas", { class: "dots", "aria-hidden": "true" });
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  dots.width = width * ratio;
  dots.height = height * ratio;
  const context = dots.getContext("2d");
  context.scale(ratio, ratio);
  const radius = nTargets > 3000 ? 1.2 : nTargets > 300 ? 2.2 : 3.6,
    own = selectedGroup();
  for (const here of [false, true]) {
    context.fillStyle = here ? theme.accent : theme.quiet;
    context.globalAlpha = here ? 1 : nTargets > 3000 ? 0.25 : 0.55;
    context.beginPath();
    for (let i = 0; i < nTargets; i++) {
      if ((state.groups.labels[i] === own) !== here || !Number.isFinite(said[i] + found[i]))
        continue;
      const cx = x(Math.max(x0, Math.min(x1, said[i]))),
        cy = y(Math.max(y0, Math.min(y1, found[i])));
      context.moveTo(cx + radius, cy);
      context.arc(cx, cy, radius, 0, 2 * Math.PI);
    }
    context.fill();
  }
  dots.style.width = `${width}px`;
  dots.style.height = `${height}px`;
  put(box, element("div", { class: "scatter" }, plot, dots));
}
