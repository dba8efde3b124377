// What the map answers to: its legend, the pointer, the wheel and the keyboard.
function drawLegend(scale) {
  const choice = coloured();
  const box = byId("legend");
  if (choice.id === "group") {
    const alone = state.groups.colour.includes(ALONE);
    put(
      box,
      element(
        "span",
        { class: "swatches", "aria-hidden": "true" },
        ...PALETTE.map((c) => swatch(c)),
      ),
      element("span", {}, "Neighbouring groups differ in colour; colours repeat elsewhere."),
      alone ? swatch(theme.alone) : null,
      alone ? element("span", {}, `a ${page.task} by itself`) : null,
    );
    return;
  }
  const bar = element("canvas", { width: N_BINS, height: 1, class: "ramp", "aria-hidden": "true" });
  const context = bar.getContext("2d");
  for (let i = 0; i < N_BINS; i++) {
    context.fillStyle = scale.colours[i];
    context.fillRect(i, 0, 1, 1);
  }
  const what =
    choice.id === "coefficient"
      ? `${page.features.what} of ${page.features.names[state.feature]}`
      : choice.name;
  const words =
    choice.id === "held-out"
      ? "share of its variance; below zero it lost"
      : choice.id === "coefficient"
        ? page.features.coefficient_units
        : choice.id === "gain" && page.standardised
          ? "share of its variance, predicted"
          : "";
  put(
    box,
    element("span", { class: "legend-end" }, choice.show(scale.low)),
    bar,
    element("span", { class: "legend-end" }, choice.show(scale.high)),
    element("span", {}, words ? `${what}: ${words}` : what),
    state.step === chosenStep
      ? null
      : element("span", { class: "warn" }, "values are of the chosen limit"),
  );
}

function swatch(colour) {
  const mark = element("span", { class: "swatch" });
  mark.style.background = colour;
  return mark;
}

function showTip(target, x, y) {
  if (target < 0) {
    tip.hidden = true;
    return;
  }
  const group = state.groups.labels[target],
    size = state.groups.size(group);
  const choice = coloured();
  put(
    tip,
    element("b", { dir: "auto" }, page.names[target]),
    element(
      "span",
      {},
      size === 1 ? "by itself" : `group ${group}, ${plural(size, page.task, page.tasks)}`,
    ),
    choice.values
      ? element("span", {}, `${choice.name} ${choice.show(choice.values[target])}`)
      : null,
  );
  tip.hidden = false;
  const left = Math.min(x + 14, view.width - tip.offsetWidth - 6);
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${y > view.height - 80 ? y - tip.offsetHeight - 12 : y + 14}px`;
}

function listenToPointer() {
  let drag = null,
    pinch = 0;
  const pointers = new Map();
  const place = (event) => [event.offsetX, event.offsetY];
  overlay.addEventListener("pointerdown", (event) => {
    pointers.set(event.pointerId, place(event));
    drag = { at: place(event), moved: false };
    pinch = spread(pointers);
  });
  overlay.addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    if (pointers.has(event.pointerId)) pointers.set(event.pointerId, [x, y]);
    if (pointers.size === 2) {
      const now = spread(pointers);
      if (pinch > 0) zoomBy(now / pinch);
      pinch = now;
      drag = null;
      return;
    }
    if (drag && event.buttons) {
      const dx = x - drag.at[0],
        dy = y - drag.at[1];
      if (!drag.moved && Math.hypot(dx, dy) < 4) return;
      if (!drag.moved) overlay.setPointerCapture(event.pointerId);
      drag = { at: [x, y], moved: true };
      if (view.zoom > 1) panBy(dx, dy);
      return;
    }
    const target = targetAt(x, y);
    if (target !== hovered) {
      hovered = target;
      drawOverlay();
    }
    overlay.style.cursor = target >= 0 ? "pointer" : view.zoom > 1 ? "grab" : "default";
    showTip(target, x, y);
  });
  const up = (event) => {
    pointers.delete(event.pointerId);
    if (event.type === "pointerup" && drag && !drag.moved) {
      const target = targetAt(...place(event));
      if (target >= 0) selectTarget(target);
    }
    drag = null;
  };
  overlay.addEventListener("pointerup", up);
  overlay.addEventListener("pointercancel", up);
  overlay.addEventListener("pointerleave", () => {
    hovered = -1;
    tip.hidden = true;
    drawOverlay();
  });
  overlay.addEventListener(
    "wheel",
    (event) => {
      // A page that scrolls past is not caught by its map: the wheel zooms once the map has focus.
      if (!event.ctrlKey && document.activeElement !== overlay) return;
      event.preventDefault();
      zoomBy(Math.exp(-event.deltaY * 0.002), ...place(event));
    },
    { passive: false },
  );
}

function spread(pointers) {
  if (pointers.size !== 2) return 0;
  const [[x0, y0], [x1, y1]] = [...pointers.values()];
  return Math.hypot(x1 - x0, y1 - y0);
}

function listenToKeys() {
  overlay.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "+" || event.key === "=") zoomBy(1.5);
    else if (event.key === "-") zoomBy(1 / 1.5);
    else if (event.key === "0" || event.key === "Escape") wholeMap();
    else if (step && event.shiftKey) {
      const far = -60 * step;
      panBy(
        event.key.endsWith("Right") || event.key.endsWith("Left") ? far : 0,
        event.key.endsWith("Up") || event.key.endsWith("Down") ? far : 0,
      );
    } else if (step) selectGroup(selectedGroup() + step);
    else if (event.key === "Home") selectGroup(0);
    else if (event.key === "End") selectGroup(state.groups.n - 1);
    else if (event.key === "Enter") byId("group-title").focus();
    else return;
    event.preventDefault();
  });
}

function selectGroup(group) {
  const { n, members } = state.groups;
  selectTarget(members(((group % n) + n) % n)[0]);
}

function wholeMap() {
  view.zoom = 1;
  keepInSight();
  viewChanged();
}

function startMap() {
  put(byId("colour-by"), ...choices.map(({ id, name }) => element("option", { value: id }, name)));
  byId("colour-by").addEventListener("change", (event) => {
    state.colour = event.target.value;
    changed("colour");
  });
  if (page.features) {
    put(
      byId("feature"),
      ...page.features.names.map((name, k) => element("option", { value: k }, name)),
    );
    byId("feature").addEventListener("change", (event) => {
      state.feature = Number(event.target.value);
      changed("colour");
    });
  }
  byId("zoom-in").addEventListener("click", () => zoomBy(1.6));
  byId("zoom-out").addEventListener("click", () => zoomBy(1 / 1.6));
  byId("zoom-all").addEventListener("click", wholeMap);
  listenToPointer();
  listenToKeys();
  onChange((what) => {
    byId("feature-choice").hidden = state.colour !== "coefficient";
    if (onPaper()) return;
    if (what.has("size")) measureMap();
    if (what.has("groups") || what.has("colour") || what.has("size")) drawMap();
    else drawOverlay();
    const group = selectedGroup();
    overlay.setAttribute(
      "aria-label",
      `${drawing.kind === "tiles" ? "Tiles" : "Map"} of ${plural(
        nTargets,
        page.task,
        page.tasks,
      )} in ${plural(state.groups.n, "group", "groups")}; group ${
        group
      } selected, ${plural(state.groups.size(group), page.task, page.tasks)}`,
    );
  }, "at_once");
}
