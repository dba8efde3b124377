// Small charts of one group: its mean over the samples, its coefficients, its members.
function seriesChart(box, row, colour) {
  const { samples, mean: means, low, high } = page.series;
  const n = samples.length,
    from = row * n;
  const width = Math.max(280, box.clientWidth),
    height = 190,
    left = 44,
    right = 8,
    top = 8,
    base = height - 24;
  const cut = (array) => array.subarray(from, from + n);
  const values = [...cut(low), ...cut(high), ...cut(means)].filter(Number.isFinite);
  if (!values.length) return put(box, element("p", { class: "help" }, "No value is observed."));
  const most = largest(values),
    least = -largest(values.map((v) => -v));
  const x = (i) => left + (i / Math.max(1, n - 1)) * (width - left - right);
  const y = (v) => base - ((v - least) / (most - least || 1)) * (base - top);
  const parts = [];
  for (const tick of niceTicks(least, most, 4)) {
    parts.push(
      svg("line", { x1: left, x2: width - right, y1: y(tick), y2: y(tick), class: "grid" }),
    );
    parts.push(svg("text", { x: left - 8, y: y(tick) + 4, class: "axis end" }, number(tick)));
  }
  const band = runsOf(cut(means)).map(([a, b]) => {
    const up = [],
      down = [];
    for (let i = a; i < b; i++) {
      up.push(`${x(i).toFixed(1)},${y(high[from + i]).toFixed(1)}`);
      down.unshift(`${x(i).toFixed(1)},${y(low[from + i]).toFixed(1)}`);
    }
    return `M${[...up, ...down].join("L")}Z`;
  });
  const area = svg("path", { d: band.join(""), class: "spread" });
  area.style.fill = colour;
  parts.push(area);
  const line = runsOf(cut(means)).map(
    ([a, b]) =>
      `M${Array.from({ length: b - a }, (_, k) => `${x(a + k).toFixed(1)},${y(means[from + a + k]).toFixed(1)}`).join("L")}`,
  );
  parts.push(svg("path", { d: line.join(""), class: "mean-line" }));
  const shown = Math.max(2, Math.min(8, Math.floor(width / 110)));
  for (let k = 0; k < Math.min(shown, n); k++) {
    const i = Math.round((k / Math.max(1, Math.min(shown, n) - 1)) * (n - 1));
    const anchor = k === 0 ? "" : i === n - 1 ? " end" : " mid";
    parts.push(
      svg("text", { x: x(i), y: height - 5, class: `axis${anchor}` }, shortSample(samples[i])),
    );
  }
  put(
    box,
    svg(
      "svg",
      {
        width,
        height,
        viewBox: `0 0 ${width} ${height}`,
        role: "img",
        "aria-label": `Mean of the group over ${count(n)} ${page.sample}s, from ${number(least)} to ${number(most)}`,
      },
      ...parts,
    ),
  );
}

const shortSample = (text) => text.replace(/[T ]00:00:00.*$/, "").slice(0, 12);

// Runs of samples with a value.
function runsOf(values) {
  const runs = [];
  for (let i = 0; i < values.length; i++) {
    if (!Number.isFinite(values[i])) continue;
    if (runs.length && runs.at(-1)[1] === i) runs.at(-1)[1] = i + 1;
    else runs.push([i, i + 1]);
  }
  return runs;
}

function niceTicks(low, high, n) {
  const raw = (high - low) / n || 1,
    power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= raw);
  const found = [];
  for (let v = Math.ceil(low / step) * step; v <= high + 1e-9 * step; v += step)
    found.push(Math.abs(v) < 1e-9 * step ? 0 : v);
  return found;
}

// Means of features of a group, with what moving all columns of a mean together does.
function meansOf(row) {
  const { names, means, value, standard_error: errors } = page.features;
  const found = new Map();
  names.forEach((name, k) => {
    const label = means[row * names.length + k];
    if (label < 0) return;
    if (!found.has(label)) found.set(label, { columns: [], at: [], value: 0, error: 0 });
    const own = found.get(label);
    own.columns.push(name);
    own.at.push(k);
    // A mean hands each of its columns an equal share, of its error too.
    if (value) own.value += value[row * names.length + k];
    own.error += errors ? errors[row * names.length + k] : NaN;
  });
  const all = [...found.values()];
  return value ? all.sort((a, b) => Math.abs(b.value) - Math.abs(a.value)) : all;
}

const MOST_BARS = 14;

function coefficientChart(box, row, colour) {
  const all = meansOf(row);
  const most = Math.max(...all.map((m) => Math.abs(m.value) + (m.error || 0)), 1e-12);
  const draw = (shown) =>
    put(
      box,
      windowBands(all, most, colour),
      element(
        "div",
        { class: "bars" },
        ...all.slice(0, shown).flatMap((own) => barRow(own, most, colour)),
      ),
      all.length > shown
        ? element(
            "button",
            { type: "button", class: "more no-print", onclick: () => draw(all.length) },
            `Show all ${count(all.length)}`,
          )
        : null,
    );
  draw(window.matchMedia("print").matches ? all.length : MOST_BARS);
}

// Neighbouring lags of one series that share a mean, or one lag; null for anything else.
function windowOf(own) {
  const lags = page.features.lags;
  if (!lags || own.at.some((k) => lags.of[k] !== lags.of[own.at[0]] || lags.of[k] < 0)) return null;
  const ranks = own.at.map((k) => lags.rank[k]),
    backs = own.at.map((k) => lags.back[k]);
  if (Math.max(...ranks) - Math.min(...ranks) + 1 !== ranks.length) return null;
  const [first, last] = [Math.min(...backs), Math.max(...backs)];
  const units = last === 1 ? lags.unit : `${lags.unit}s`;
  return {
    series: lags.of[own.at[0]],
    first,
    last,
    text: `${first === last ? first : `${first}\u2013${last}`} ${units} before`,
  };
}

// A band for each window: how far back it reaches, and the coefficient of its mean as its height.
function windowBands(all, most, colour) {
  const lags = page.features.lags;
  const found = all.map((own) => [windowOf(own), own.value]).filter(([window]) => window);
  if (!page.features.value || !found.length) return null;
  const backs = [...new Set(Array.from(lags.back).filter((b) => b >= 0))].sort((a, b) => a - b);
  const step = backs.length > 1 ? Math.min(...backs.slice(1).map((b, i) => b - backs[i])) : 1;
  const far = backs[backs.length - 1] + step / 2,
    near = backs[0] - step / 2;
  const x = (back) => (100 * (far - back)) / (far - near);
  const bandsOf = (series) => {
    const own = found.filter(([window]) => window.series === series);
    if (!own.length) return [];
    const bands = own.map(([window, value]) => {
      const band = svg("rect", {
        x: x(window.last + step / 2),
        width: x(window.first - step / 2) - x(window.last + step / 2),
        y: value > 0 ? 20 - (18 * value) / most : 20,
        height: Math.max((18 * Math.abs(value)) / most, 0.6),
        class: "window",
      });
      band.style.fill = colour;
      return band;
    });
    return [
      element("div", { class: "bar-label", dir: "auto" }, lags.series[series]),
      svg(
        "svg",
        { viewBox: "0 0 100 40", preserveAspectRatio: "none", class: "bands-svg", "aria-hidden": "true" },
        svg("line", { x1: 0, x2: 100, y1: 20, y2: 20, class: "rule" }),
        ...bands,
      ),
    ];
  };
  return element(
    "div",
    { class: "bands" },
    ...lags.series.flatMap((_, series) => bandsOf(series)),
    element("span"),
    element(
      "div",
      { class: "bands-axis quiet" },
      element("span", {}, `${backs[backs.length - 1]} ${lags.unit}s before`),
      element("span", {}, backs[0] ? `${backs[0]} ${lags.unit}s before` : "the row itself"),
    ),
  );
}

function barRow(own, most, colour) {
  const window = windowOf(own);
  const several = own.columns.length > 1;
  const label = element(
    "div",
    { class: "bar-label", dir: "auto" },
    window
      ? page.features.lags.series[window.series]
      : several
        ? `mean of ${own.columns.length}`
        : own.columns[0],
    window
      ? element("small", {}, window.text)
      : several
        ? element("small", {}, columnsText(own.columns))
        : null,
  );
  if (!page.features.value) return [label, element("span"), element("span")];
  const at = (v) => 50 + (50 * v) / most;
  const bar = svg("rect", {
    x: Math.min(50, at(own.value)),
    y: 5,
    width: Math.abs(at(own.value) - 50),
    height: 10,
    class: "coef",
  });
  bar.style.fill = colour;
  const parts = [svg("line", { x1: 50, x2: 50, y1: 0, y2: 20, class: "rule" }), bar];
  if (Number.isFinite(own.error)) {
    parts.push(
      svg("line", {
        x1: at(own.value - own.error),
        x2: at(own.value + own.error),
        y1: 10,
        y2: 10,
        class: "whisker",
      }),
    );
  }
  const decimals = Math.max(0, Math.min(6, 2 - Math.floor(Math.log10(most))));
  const about = Number.isFinite(own.error) ? ` \u00b1 ${fixed(own.error, decimals)}` : "";
  return [
    label,
    svg(
      "svg",
      {
        viewBox: "0 0 100 20",
        preserveAspectRatio: "none",
        class: "bar-svg",
        "aria-hidden": "true",
      },
      ...parts,
    ),
    element(
      "div",
      { class: "bar-value" },
      signed(fixed(own.value, decimals), own.value),
      element("span", { class: "quiet" }, about),
    ),
  ];
}

function columnsText(columns) {
  return columns.length > 30 ? listed(columns, 30) : columns.join(", ");
}

// Members, those made worse first: the error by themselves and in the group, or what is predicted.
const MOST_MEMBERS = 80;

let shownMembers = [];

function startMembers() {
  arrowKeys(
    byId("panel-members").querySelector(".chart"),
    () => shownMembers,
    () => state.target,
    selectTarget,
  );
}

function membersChart(box, members) {
  const { gain, gain_error: spread, errors } = page.targets;
  const held = fare && fare.id === "held-out";
  const worth = (i) => (fare && Number.isFinite(fare.values[i]) ? fare.values[i] : Infinity);
  const order = Array.from(members).sort((a, b) => worth(a) - worth(b) || a - b);
  const shown = order.slice(0, MOST_MEMBERS);
  shownMembers = shown;
  let rows;
  if (held) {
    const ours = errors[page.held_out.methods[0]],
      alone = errors[page.held_out.single];
    const most = Math.max(
      ...shown.flatMap((i) => [ours[i], alone[i]]).filter(Number.isFinite),
      1e-12,
    );
    rows = shown.map((i) =>
      memberRow(
        i,
        [dumbbell(alone[i] / most, ours[i] / most)],
        fare.values[i],
        percent(fare.values[i]),
      ),
    );
  } else if (gain) {
    const most = Math.max(
      ...shown.map((i) => Math.abs(gain[i]) + ((spread && spread[i]) || 0)).filter(Number.isFinite),
      1e-12,
    );
    rows = shown.map((i) =>
      memberRow(
        i,
        [predicted(gain[i] / most, spread ? spread[i] / most : NaN)],
        gain[i],
        gainText(gain[i], spread ? spread[i] : NaN),
      ),
    );
  } else rows = shown.map((i) => memberRow(i, [element("span")], NaN, ""));
  put(
    box,
    element("div", { class: "bars members" }, ...rows.flat()),
    order.length > shown.length
      ? element(
          "p",
          { class: "help" },
          `and ${count(order.length - shown.length)} more, in the table below`,
        )
      : null,
  );
}

function memberRow(i, marks, gain, text) {
  const turned = page.targets.signs[i] < 0 ? " (turned round)" : "";
  const name = element(
    "button",
    {
      type: "button",
      class: `bar-label plain${i === state.target ? " here" : ""}`,
      dir: "auto",
      tabindex: -1,
      onclick: () => selectTarget(i),
    },
    page.names[i] + turned,
  );
  return [name, ...marks, element("div", { class: `bar-value${gain < 0 ? " loss" : ""}` }, text)];
}

function dumbbell(alone, ours) {
  if (!Number.isFinite(alone) || !Number.isFinite(ours)) return element("span");
  const worse = ours > alone ? " worse" : "";
  return svg(
    "svg",
    { class: "bar-svg", "aria-hidden": "true" },
    svg("line", { x1: "0%", x2: "100%", y1: 10, y2: 10, class: "grid" }),
    svg("line", {
      x1: `${2 + 96 * alone}%`,
      x2: `${2 + 96 * ours}%`,
      y1: 10,
      y2: 10,
      class: `link${worse}`,
    }),
    svg("circle", { cx: `${2 + 96 * alone}%`, cy: 10, r: 3.5, class: "dot-before" }),
    svg("circle", { cx: `${2 + 96 * ours}%`, cy: 10, r: 4, class: `dot-after${worse}` }),
  );
}

function predicted(gain, error) {
  if (!Number.isFinite(gain)) return element("span");
  const at = (v) => `${50 + 48 * v}%`;
  return svg(
    "svg",
    { class: "bar-svg", "aria-hidden": "true" },
    svg("line", { x1: "50%", x2: "50%", y1: 0, y2: 20, class: "rule" }),
    Number.isFinite(error)
      ? svg("line", {
          x1: at(gain - error),
          x2: at(gain + error),
          y1: 10,
          y2: 10,
          class: "whisker",
        })
      : null,
    svg("circle", { cx: at(gain), cy: 10, r: 4, class: `dot-after${gain < 0 ? " worse" : ""}` }),
  );
}
