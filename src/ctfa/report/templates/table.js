// Every target in a table: those made worse first, sorted by any column, searched by name.
const TABLE_ROW = 32;

function columnsOfTable() {
  const { gain, gain_error: spread, trust, stability, errors, skills } = page.targets;
  const columns = [
    { name: page.task, of: (i) => page.names[i], text: true },
    { name: "group", of: (i) => state.groups.labels[i] },
    {
      name: "with",
      of: (i) => state.groups.size(state.groups.labels[i]) - 1,
      show: count,
      title: "others in its group",
    },
  ];
  if (fare && fare.id === "held-out") {
    columns.push({
      name: "held-out gain",
      of: (i) => fare.values[i],
      show: (x) => percent(x),
      judges: true,
    });
    page.held_out.methods.forEach((method, k) =>
      columns.push({
        name: k === 0 && !page.held_out.chose_again ? "error in its group" : `${method} error`,
        of: (i) => errors[method][i],
        show: (x) => fixed(x, 3),
      }),
    );
  }
  for (const [name, values] of Object.entries(skills)) {
    const { zeros, hardest } = page.held_out;
    const { words } = zeros[name === "skill" ? "climatology" : hardest];
    columns.push({
      name,
      broad: name !== "skill",
      of: (i) => values[i],
      show: (x) => fixed(x, 2),
      title: `against ${words}`,
    });
  }
  if (gain) {
    columns.push({
      name: page.gain_name,
      of: (i) => gain[i],
      judges: !(fare && fare.id === "held-out"),
      show: (x, i) => gainText(x, spread ? spread[i] : NaN),
    });
  }
  if (trust)
    columns.push({
      name: "trust",
      of: (i) => trust[i],
      show: (x) => percent(x, 0).replace("+", ""),
    });
  if (stability)
    columns.push({
      name: "stability",
      of: (i) => stability[i],
      show: (x) => percent(x, 0).replace("+", ""),
    });
  return columns;
}

function startTable() {
  const columns = columnsOfTable(),
    box = byId("table");
  const judge = columns.find((column) => column.judges);
  let by = judge || columns[0],
    down = false,
    order = [];
  const heads = columns.map((column) =>
    element(
      "th",
      { scope: "col", title: column.title || null, class: column.text ? "text" : null },
      element(
        "button",
        {
          type: "button",
          onclick: () => {
            down = by === column ? !down : false;
            by = column;
            arrange();
          },
        },
        column.name,
      ),
    ),
  );
  const body = element("tbody");
  put(
    box,
    element(
      "table",
      { "aria-rowcount": nTargets + 1 },
      element(
        "colgroup",
        {},
        ...columns.map((c) =>
          element("col", { class: c.text ? "wide" : c.broad || c.name === page.gain_name ? "broad" : null }),
        ),
      ),
      element("thead", {}, element("tr", {}, ...heads)),
      body,
    ),
  );
  box.firstChild.style.setProperty("--least", `${110 + 84 * columns.length}px`);
  const rows = virtualRows(box, TABLE_ROW, (first, end, n) => {
    const shown = [spacer(first, columns.length)];
    for (let r = first; r < end; r++) shown.push(tableRow(order[r], r, columns, judge));
    if (end < n && window.matchMedia("print").matches) {
      shown.push(
        element(
          "tr",
          {},
          element(
            "td",
            { colspan: columns.length, class: "text" },
            `and ${count(n - end)} more: download them from the page`,
          ),
        ),
      );
    } else shown.push(spacer(n - end, columns.length));
    put(body, ...shown);
  });
  const search = byId("table-search");
  const arrange = () => {
    order = arranged(by, down, search.value.trim().toLowerCase());
    heads.forEach((head, k) =>
      head.setAttribute(
        "aria-sort",
        columns[k] !== by ? "none" : down ? "descending" : "ascending",
      ),
    );
    byId("table-facts").textContent = tableFacts(judge, order.length);
    box.scrollTop = 0;
    rows.update(order.length);
  };
  arrowKeys(
    box,
    () => order,
    () => state.target,
    (target, at) => {
      selectTarget(target);
      rows.reveal(at);
    },
  );
  search.addEventListener("input", arrange);
  byId("table-title").textContent = `All ${page.tasks}`;
  arrange();
  onChange((what) => {
    if (what.has("groups") && (by.name === "group" || by.name === "with")) arrange();
    else rows.update(order.length);
  });
}

function arranged(by, down, text) {
  const found = [];
  for (let i = 0; i < nTargets; i++)
    if (!text || page.names[i].toLowerCase().includes(text)) found.push(i);
  const turn = down ? -1 : 1;
  if (by.text) {
    const compare = new Intl.Collator(undefined, { numeric: true }).compare;
    return found.sort((a, b) => turn * compare(page.names[a], page.names[b]));
  }
  const value = Float64Array.from({ length: nTargets }, (_, i) => by.of(i));
  const known = (v) => (Number.isNaN(v) ? Infinity * turn : v);
  return found.sort((a, b) => {
    const [x, y] = [known(value[a]), known(value[b])];
    return x === y ? a - b : turn * (x < y ? -1 : 1);
  });
}

function tableFacts(judge, shown) {
  const found = shown < nTargets ? `${count(shown)} found. ` : "";
  if (!judge) return found;
  let worse = 0;
  for (let i = 0; i < nTargets; i++) if (judge.of(i) < 0) worse++;
  const what =
    judge.name === "held-out gain"
      ? page.held_out.chose_again
        ? "predicted worse than by themselves in folds that chose again"
        : "predicted worse in their group than by themselves, on held-out rows"
      : "expected to lose by their group";
  return (
    found +
    (worse
      ? `${count(worse)} of ${plural(nTargets, page.task, page.tasks)} are ${what}; they come first.`
      : `No ${page.task} is ${what}.`)
  );
}

function spacer(n, width) {
  const row = element(
    "tr",
    { "aria-hidden": "true" },
    element("td", { colspan: width, class: "spacer" }),
  );
  row.firstChild.style.height = `${n * TABLE_ROW}px`;
  return row;
}

function tableRow(i, r, columns, judge) {
  const worse = judge && judge.of(i) < 0;
  const cells = columns.map((column) => {
    const value = column.of(i);
    if (column.text) {
      return element(
        "th",
        { scope: "row", class: "text" },
        swatch(groupColour(state.groups.labels[i])),
        element(
          "button",
          {
            type: "button",
            class: "plain",
            tabindex: -1,
            dir: "auto",
            title: value,
            onclick: () => selectTarget(i),
          },
          value,
        ),
      );
    }
    const text = column.show ? column.show(value, i) : String(value);
    return element("td", { class: column === judge && worse ? "loss" : null }, text);
  });
  return element(
    "tr",
    { "aria-rowindex": r + 2, class: i === state.target ? "here" : null },
    ...cells,
  );
}
