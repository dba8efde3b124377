// The slider over the limit of merging, and under it what held-out rows say of each limit.
const TRACK = 1000,
  EDGE = 9;
const unitOfLoss = (() => {
  if (page.rule.usual_loss) return page.rule.usual_loss;
  return quantile(merges.height.map(Math.abs), 0.5) || 1;
})();
const stretched = (limit) => Math.asinh(limit / unitOfLoss);
const range = (() => {
  const finite = merges.height.filter((h) => Number.isFinite(h) && Math.abs(h) < 1e30);
  const limits = [...finite.slice(0, 1), ...finite.slice(-1)];
  if (page.curve)
    limits.push(...page.curve.limit.filter((l) => Number.isFinite(l) && l <= (finite.at(-1) ?? l)));
  if (Number.isFinite(page.rule.limit)) limits.push(page.rule.limit);
  const low = stretched(Math.min(...limits, 0)),
    high = stretched(Math.max(...limits, unitOfLoss));
  const pad = 0.04 * (high - low || 1);
  return { low: low - pad, high: high + pad };
})();

// Where a limit lies on the track, from 0 to 1; infinite ones at its ends.
function placeOf(limit) {
  if (limit === -Infinity) return 0;
  if (!Number.isFinite(limit) || limit > 1e30) return 1;
  return Math.max(0, Math.min(1, (stretched(limit) - range.low) / (range.high - range.low)));
}

function limitAt(place) {
  if (place <= 0) return -Infinity;
  if (place >= 1) return Infinity;
  return unitOfLoss * Math.sinh(range.low + place * (range.high - range.low));
}

// The limit that is shown: the chosen one, what the slider says, or that of the last merge.
let shownLimit = page.rule.limit;

function showLimit(limit) {
  shownLimit = limit;
  setStep(page.rule.nested ? stepAt(limit) : state.step);
  changed("groups");
}

function showStep(step) {
  setStep(step);
  shownLimit =
    state.step === chosenStep
      ? page.rule.limit
      : state.step === 0
        ? -Infinity
        : merges.height[state.step - 1];
  changed("groups");
}

function startSlider() {
  const input = byId("limit");
  const words = page.rule.limit_words;
  byId("limit-unit").textContent = words ? `max_loss: ${words}` : "max_loss";
  let queued = false;
  input.addEventListener("input", () => {
    // A hand moves faster than a large map is drawn: the last position counts.
    if (!queued)
      requestAnimationFrame(() => {
        queued = false;
        const place = Number(input.value) / TRACK;
        if (page.rule.nested) showLimit(limitAt(place));
        else showStep(Math.round(place * merges.n));
      });
    queued = true;
  });
  byId("limit-reset").addEventListener("click", () => showStep(chosenStep));
  byId("merge-back").addEventListener("click", () => showStep(state.step - 1));
  byId("merge-on").addEventListener("click", () => showStep(state.step + 1));
  const notes = [];
  if (!page.rule.nested) {
    notes.push(
      "This search takes merges in its own order: the slider replays them one by one, " +
        "which is not what a smaller limit would have given.",
    );
  } else if (!page.rule.complete)
    notes.push("Merges beyond the limit that was used are not in this page.");
  if (page.curve) {
    notes.push(
      "The line is the error on held-out rows, with two standard errors of its difference " +
        "from the best; groups were found again without those rows.",
    );
  }
  byId("limit-note").textContent = notes.join(" ");
  onChange((what) => {
    if (!what.has("groups") && !what.has("size") && !what.has("colour")) return;
    const place = page.rule.nested ? placeOf(shownLimit) : state.step / (merges.n || 1);
    input.value = Math.round(place * TRACK);
    input.setAttribute(
      "aria-valuetext",
      `limit ${number(shownLimit)}, ${plural(state.groups.n, "group", "groups")}`,
    );
    byId("limit-reset").disabled = state.step === chosenStep;
    byId("merge-back").disabled = state.step === 0;
    byId("merge-on").disabled = state.step === merges.n;
    drawReadout();
    drawAgain();
    drawCurve(place);
  }, "at_once");
}

const chosenOrGiven = (where) => (page.rule.chosen ? `chosen ${where}` : "as given");

// What gives the model of the groups shown, to be copied.
function drawAgain() {
  const written = page.rule.again.map((text) => text.replace("{n}", state.groups.n));
  byId("again").hidden = !written.length;
  put(
    byId("again"),
    element(
      "p",
      { class: "help" },
      state.step === chosenStep ? "This model again: " : "The model of these groups: ",
    ),
    ...written.map((text) =>
      element(
        "p",
        {},
        element("code", {}, text),
        element(
          "button",
          {
            type: "button",
            class: "no-print",
            "aria-label": `Copy ${text}`,
            onclick: (event) => copyText(text, event.currentTarget),
          },
          "Copy",
        ),
      ),
    ),
  );
}

// A page that was opened as a file may not have the clipboard: then the text is selected.
async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(button.previousElementSibling);
    button.textContent = "Selected";
  }
}

function drawReadout() {
  const said = [
    [
      "max_loss",
      fixed(shownLimit),
      state.step !== chosenStep ? "" : page.rule.counted ? "" : chosenOrGiven("on folds"),
    ],
    [
      state.groups.n === 1 ? "group" : "groups",
      count(state.groups.n),
      `of ${plural(nTargets, page.task, page.tasks)}`,
    ],
  ];
  const tried = nearestTried();
  if (tried >= 0) {
    const { error, limit } = page.curve;
    said.push([
      "held-out error",
      fixed(error[tried], 3),
      `at the limit ${number(limit[tried])} tried`,
    ]);
  }
  if (page.evidence) {
    let total = 0;
    const known = Math.min(state.step, page.evidence.gain.length);
    for (let i = 0; i < known; i++) total += page.evidence.gain[i] || 0;
    const more = state.step - known;
    said.push([
      "predicted gain",
      gainText(total / nTargets),
      more > 0
        ? `per ${page.task}, without the last ${plural(more, "merge", "merges")}`
        : page.standardised
          ? `of its variance, per ${page.task} on average`
          : `per ${page.task} on average`,
    ]);
  }
  put(
    byId("readout"),
    ...said.map(([name, value, note]) =>
      element(
        "div",
        {},
        element("dt", {}, name),
        element("dd", {}, value),
        element("dd", { class: "quiet" }, note),
      ),
    ),
  );
}

// The limit that was tried on folds and is nearest to the one shown; -1 if none was.
function nearestTried() {
  if (!page.curve) return -1;
  let best = -1,
    least = Infinity;
  page.curve.limit.forEach((limit, i) => {
    const far = Math.abs(placeOf(limit) - placeOf(shownLimit));
    if (far < least && Number.isFinite(page.curve.error[i])) {
      least = far;
      best = i;
    }
  });
  return best;
}

function drawCurve(place) {
  const box = byId("curve");
  const room = isTall() ? Math.min(300, Math.max(0, view.height - 430)) : 0;
  const width = box.clientWidth || 600,
    base = (page.curve ? 120 : 70) + room,
    top = 8;
  const height = base + 22;
  const x = (p) => EDGE + p * (width - 2 * EDGE);
  const parts = [];
  const logOf = (n) => base - (Math.log(n) / Math.log(Math.max(nTargets, 2))) * (base - top);
  // Number of groups, on a scale of ratios.
  let line = `M${x(0)},${logOf(nTargets)}`;
  const pixels = Math.min(merges.n, 700);
  for (let k = 1; k <= pixels; k++) {
    const step = Math.round((k / pixels) * merges.n);
    const p = page.rule.nested ? placeOf(merges.height[step - 1]) : step / merges.n;
    line += `H${x(p).toFixed(1)}V${logOf(nTargets - step).toFixed(1)}`;
  }
  parts.push(svg("path", { d: `${line}H${x(1)}`, class: "count-line" }));
  if (page.curve) parts.push(...errorLine(x, base, top));
  for (const [limit, label] of ticks()) {
    parts.push(
      svg("line", {
        x1: x(placeOf(limit)),
        x2: x(placeOf(limit)),
        y1: base,
        y2: base + 4,
        class: "rule",
      }),
    );
    parts.push(svg("text", { x: x(placeOf(limit)), y: height - 4, class: "axis mid" }, label));
  }
  parts.push(svg("line", { x1: x(0), x2: x(1), y1: base, y2: base, class: "rule" }));
  const chosen = page.rule.nested ? placeOf(page.rule.limit) : chosenStep / (merges.n || 1);
  parts.push(svg("line", { x1: x(chosen), x2: x(chosen), y1: 0, y2: base, class: "chosen" }));
  parts.push(svg("line", { x1: x(place), x2: x(place), y1: 0, y2: base, class: "current" }));
  const key = (kind, text) => element("span", {}, element("i", { class: kind }), text);
  put(
    box,
    svg(
      "svg",
      {
        width,
        height,
        viewBox: `0 0 ${width} ${height}`,
        role: "img",
        "aria-label": "Number of groups and held-out error for each limit",
      },
      ...parts,
    ),
    element(
      "div",
      { class: "curve-key" },
      page.curve ? key("of-error", "held-out error") : null,
      key(
        "of-count",
        `groups, from ${count(nTargets)} to ${count(nTargets - merges.n)}, in ratios`,
      ),
      key("of-chosen", page.rule.chosen ? "limit chosen" : page.rule.counted ? "as requested" : "limit given"),
    ),
  );
}

const isTall = () => document.querySelector(".stage").classList.contains("tall");

function errorLine(x, base, top) {
  const { limit, error, standard_error: spread } = page.curve;
  const known = [...error.keys()].filter((i) => Number.isFinite(error[i]));
  const least = Math.min(...known.map((i) => error[i])),
    middle = quantile(error, 0.5);
  // What is far worse than half of the limits would press the rest flat.
  const most = Math.min(
    Math.max(...known.map((i) => error[i])),
    middle + 2.5 * (middle - least) + 1e-9,
  );
  const share = (e) => Math.max(-0.06, Math.min(1.1, (e - least) / (most - least || 1)));
  const y = (e) => base - 8 - share(e) * (base - top - 24);
  const at = (i) => x(placeOf(limit[i])).toFixed(1);
  const line = known.map((i) => `${at(i)},${y(error[i]).toFixed(1)}`).join("L");
  const band = [
    ...known.map((i) => `${at(i)},${y(error[i] + 2 * spread[i]).toFixed(1)}`),
    ...[...known].reverse().map((i) => `${at(i)},${y(error[i] - 2 * spread[i]).toFixed(1)}`),
  ].join("L");
  const right = x(1);
  const marks = niceTicks(least, most, 4).flatMap((tick) => [
    svg("line", { x1: x(0), x2: right, y1: y(tick), y2: y(tick), class: "grid" }),
    svg("text", { x: right, y: y(tick) - 4, class: "axis end error-tick" }, number(tick)),
  ]);
  return [
    ...marks,
    svg("path", { d: `M${band}Z`, class: "band" }),
    svg("path", { d: `M${line}`, class: "error-line" }),
    ...known.map((i) =>
      svg(
        "circle",
        {
          cx: at(i),
          cy: y(error[i]),
          r: i === page.curve.chosen ? 4.5 : 2.5,
          class: share(error[i]) > 1.05 ? "error-dot beyond" : "error-dot",
        },
        svg(
          "title",
          {},
          `limit ${number(limit[i])}: error ${number(error[i], 4)}, ${number(
            page.curve.n_groups[i],
          )} groups on average`,
        ),
      ),
    ),
  ];
}

function ticks() {
  if (!page.rule.nested) return [];
  const wanted = [0, 1, 2, 5, 10, 30, 100, 1000, 1e4, 1e5].map((v) => v * 2 * unitOfLoss);
  const shown = [[-Infinity, "none"]];
  for (const limit of wanted) {
    const p = placeOf(limit);
    if (p > placeOf(shown.at(-1)[0]) + 0.05 && p < 0.95) shown.push([limit, number(limit)]);
  }
  return [...shown, [Infinity, "\u221e"]];
}
