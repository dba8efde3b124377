// Everything about the selected group: a figure of five panels.
// Panels have letters as in a figure, one after the other as far as they are shown.
function caption(id, title, note) {
  byId(id).hidden = false;
  const shown = [...document.querySelectorAll(".panel:not([hidden])")].map((panel) => panel.id);
  put(
    byId(id).querySelector("figcaption"),
    element("b", {}, "abcdefgh"[shown.indexOf(id)]),
    element("span", { class: "panel-title" }, title),
    note ? element("span", { class: "panel-note" }, note) : null,
  );
  return byId(id).querySelector(".chart");
}

function startPanel() {
  startMembers();
  onChange((what) => {
    if (what.size === 1 && what.has("colour")) return;
    drawPanel();
  });
}

function drawPanel() {
  const group = selectedGroup(),
    { groups } = state,
    members = groups.members(group);
  const chosen = atChosenLimit(group);
  const row = chosen < 0 ? -1 : rowOfGroup()[chosen];
  const colour = groupColour(group) === theme.alone ? theme.accent : groupColour(group);
  const mark = swatch(groupColour(group));
  put(byId("group-title"), mark, members.length === 1 ? page.names[members[0]] : `Group ${group}`);
  byId("group-facts").textContent = factsOf(members, chosen);
  const has = (id, shown) => {
    byId(id).hidden = !shown;
    return shown;
  };
  if (has("panel-series", page.series && row >= 0)) {
    const units = page.standardised
      ? " (standard deviations)"
      : page.target_units
        ? ` (${page.target_units})`
        : "";
    seriesChart(
      caption(
        "panel-series",
        members.length === 1 ? `${page.target}${units}` : `Mean ${page.target}${units}`,
        members.length > 1
          ? `line: mean of ${count(members.length)} ${page.tasks}; band: spread of its members`
          : "",
      ),
      row,
      colour,
    );
  }
  if (has("panel-coef", page.features && row >= 0)) {
    const all = meansOf(row);
    const kept =
      all.length < page.features.names.length
        ? `${plural(page.features.names.length, "feature", "features")} in ${plural(all.length, "mean", "means")}`
        : "";
    const { what, standard_error: known } = page.features;
    const ofWhat =
      what === "importance"
        ? "line: standard deviation over shuffles"
        : "line: one standard error, given the groups and independent rows";
    const errors = known ? ofWhat : "";
    const heading = what === "importance" ? "Importance" : "Coefficients";
    coefficientChart(
      caption(
        "panel-coef",
        page.features.value ? heading : "Features",
        [kept, page.features.coefficient_units, errors, page.features.no_error]
          .filter(Boolean)
          .join("; "),
      ),
      row,
      colour,
    );
  }
  const held = fare && fare.id === "held-out";
  membersChart(
    caption(
      "panel-members",
      `Its ${members.length === 1 ? page.task : page.tasks}`,
      held
        ? page.held_out.chose_again
          ? "held-out error by itself (open) and in folds that chose again (filled)"
          : "held-out error by itself (open) and in the group (filled); worst first"
        : fare
          ? `${page.gain_name} over a model of its own; worst first`
          : "",
    ),
    members,
  );
  whyChart(
    caption(
      "panel-why",
      members.length === 1 ? "Why it stays by itself" : "Why merged, and why not more",
      members.length > 1 ? "last merge first" : "",
    ),
    group,
  );
  drawTree();
}

function factsOf(members, chosen) {
  const said = [plural(members.length, page.task, page.tasks)];
  if (members.length > 1)
    said.push(
      listed(
        Array.from(members.subarray(0, 4), (i) => page.names[i]),
        4,
        members.length,
      ),
    );
  if (fare && members.length > 1) {
    const known = Array.from(members, (i) => fare.values[i]).filter(Number.isFinite);
    if (known.length) {
      const lost = known.filter((v) => v < 0).length;
      said.push(
        `mean ${fare.name} ${fare.show(mean(known))}${lost ? `, ${count(lost)} worse off` : ", none worse off"}`,
      );
    }
  }
  if (chosen < 0)
    said.push("not a group of the chosen limit: series and coefficients are known there only");
  return said.join(" \u00b7 ");
}
