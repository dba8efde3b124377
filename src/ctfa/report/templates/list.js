// The groups as a list: sorted, searched, chosen by click or by arrow keys.
const ROW = 34;
let shownGroups = [];

// Mean over members of what tells best how they fare: held-out gain, else the predicted one.
const fare =
  choices.find((c) => c.id === "held-out") || choices.find((c) => c.id === "gain") || null;

function fareOf(group) {
  return fare ? mean(Array.from(state.groups.members(group), (i) => fare.values[i])) : NaN;
}

function startList() {
  const box = byId("list"),
    search = byId("list-search"),
    sort = byId("list-sort");
  const ways = [
    ["size", "largest first"],
    ...(fare ? [["worst", `least ${fare.name} first`]] : []),
    ["number", "by number"],
  ];
  put(sort, ...ways.map(([value, text]) => element("option", { value }, text)));
  const rows = virtualRows(box, ROW, (first, end, n) => {
    const selected = selectedGroup();
    const items = [];
    for (let r = first; r < end; r++)
      items.push(listRow(shownGroups[r], shownGroups[r] === selected));
    const above = element("div", { role: "presentation" }),
      below = element("div", { role: "presentation" });
    above.style.height = `${first * ROW}px`;
    below.style.height = `${(n - end) * ROW}px`;
    put(box, above, ...items, below);
    box.setAttribute("aria-activedescendant", `group-${selected}`);
  });
  const arrange = () => {
    shownGroups = foundGroups(search.value.trim().toLowerCase());
    const { size } = state.groups;
    if (sort.value === "size") shownGroups.sort((a, b) => size(b) - size(a) || a - b);
    if (sort.value === "worst") {
      const known = new Map(shownGroups.map((g) => [g, fareOf(g)]));
      const order = (g) => (Number.isFinite(known.get(g)) ? known.get(g) : Infinity);
      shownGroups.sort((a, b) => order(a) - order(b) || a - b);
    }
    rows.update(shownGroups.length);
  };
  search.addEventListener("input", arrange);
  sort.addEventListener("change", arrange);
  arrowKeys(
    box,
    () => shownGroups,
    selectedGroup,
    (group, at) => {
      selectTarget(state.groups.members(group)[0]);
      rows.reveal(at);
    },
  );
  let revealed = -1;
  onChange((what) => {
    if (what.has("groups")) arrange();
    const at = shownGroups.indexOf(selectedGroup());
    if (at >= 0 && (what.has("groups") || selectedGroup() !== revealed)) rows.reveal(at);
    else rows.update(shownGroups.length);
    revealed = selectedGroup();
    byId("list-title").textContent = plural(state.groups.n, "group", "groups");
  });
}

function foundGroups(text) {
  if (!text) return Array.from({ length: state.groups.n }, (_, g) => g);
  const found = new Set();
  page.names.forEach((name, i) => {
    if (name.toLowerCase().includes(text)) found.add(state.groups.labels[i]);
  });
  if (/^\d+$/.test(text) && Number(text) < state.groups.n) found.add(Number(text));
  return [...found].sort((a, b) => a - b);
}

function listRow(group, selected) {
  const size = state.groups.size(group),
    gain = fareOf(group);
  const first = page.names[state.groups.members(group)[0]];
  return element(
    "div",
    {
      role: "option",
      id: `group-${group}`,
      class: "list-row",
      "aria-selected": selected ? "true" : "false",
      onclick: () => selectTarget(state.groups.members(group)[0]),
    },
    swatch(groupColour(group)),
    element("span", { class: "list-name" }, `Group ${group}`),
    element(
      "span",
      { class: "list-first quiet", dir: "auto" },
      size === 1 ? first : `${first}, \u2026`,
    ),
    element("span", { class: "list-size" }, count(size)),
    fare
      ? element("span", { class: `list-gain ${gain < 0 ? "loss" : ""}` }, fare.show(gain))
      : null,
  );
}
