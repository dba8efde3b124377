// The page: first the map, as soon as it can be drawn, then everything else.
function figure(value, label, note, kind = "") {
  return element(
    "div",
    { class: `figure ${kind}` },
    element("dt", {}, label),
    element("dd", {}, value),
    note ? element("dd", { class: "quiet" }, note) : null,
  );
}

function drawFigures() {
  const found = page.held_out,
    figures = [
      figure(
        `${count(nTargets)} \u2192 ${count(page.n_groups)}`,
        `${page.tasks} to groups`,
        page.n_groups < nTargets
          ? `${(nTargets / page.n_groups).toFixed(1)} per group on average`
          : "nothing merged",
      ),
    ];
  if (page.n_features) {
    figures.push(
      figure(
        page.n_means < page.n_features
          ? `${count(page.n_features)} \u2192 ${number(page.n_means)}`
          : count(page.n_features),
        page.n_means < page.n_features ? "features to means" : "features",
        page.n_means < page.n_features ? "median over groups" : "each by itself",
      ),
    );
  }
  if (found && found.change !== undefined && found.change !== null) {
    figures.push(
      figure(
        percent(found.change),
        `held-out error against one model per ${page.task}`,
        `${fixed(found.error[found.methods[0]], 3)} against ${fixed(found.error[found.single], 3)} of ${page.variance}`,
        found.change >= 0.0005 ? "bad" : found.change <= -0.0005 ? "good" : "",
      ),
    );
    if (found.rival && found.rival_change !== null) {
      figures.push(
        figure(
          percent(found.rival_change),
          `against the best rival, ${found.rival}`,
          `${fixed(found.error[found.methods[0]], 3)} against ${fixed(found.error[found.rival], 3)}`,
          found.rival_change >= 0.0005 ? "bad" : found.rival_change <= -0.0005 ? "good" : "",
        ),
      );
    }
    if (found.climatology) {
      const { skill, words } = found.climatology;
      const last = found.zeros[found.hardest];
      const beside = last ? `; ${fixed(last.skill, 2)} against ${last.words}` : "";
      const worse = skill < 0 || (last && last.skill < 0);
      figures.push(
        figure(
          fixed(skill, 2),
          "skill on held-out rows",
          `against ${words}${beside}`,
          worse ? "bad" : "",
        ),
      );
    }
    figures.push(
      figure(
        count(found.helped),
        `${page.tasks} helped`,
        `${count(found.hurt)} made worse${found.chose_again ? ", in folds that chose again" : ""}`,
        "",
      ),
    );
  } else if (page.targets.gain) {
    let lose = 0;
    for (let i = 0; i < nTargets; i++) if (page.targets.gain[i] < 0) lose++;
    const gained = mean(page.targets.gain);
    figures.push(
      figure(
        gainText(gained),
        `${page.gain_name}, mean`,
        page.standardised ? `of ${page.variance}` : "",
      ),
    );
    figures.push(figure(count(lose), `${page.tasks} expected to lose`, `of ${count(nTargets)}`));
  }
  put(byId("figures"), ...figures);
}

function largestGroup() {
  let best = 0;
  for (let g = 1; g < state.groups.n; g++)
    if (state.groups.size(g) > state.groups.size(best)) best = g;
  return state.groups.members(best)[0];
}

function redrawAll() {
  readTheme();
  changed("size", "colour", "groups", "selection");
}

function start() {
  readTheme();
  setStep(chosenStep);
  chosenGroups = state.groups;
  state.target = largestGroup();
  startMap();
  measureMap();
  drawMap();
  drawFigures();
  // Two frames later what was drawn is on the screen.
  requestAnimationFrame(() =>
    requestAnimationFrame(() => {
      performance.mark("ctfa-map-drawn");
      for (const part of [
        startSlider,
        startList,
        startPanel,
        startMatrix,
        startJudged,
        startTable,
        startDownloads,
      ])
        part();
      changed("groups", "selection", "colour", "size");
      for (const query of ["(prefers-color-scheme: dark)", "print"]) {
        window.matchMedia(query).addEventListener("change", redrawAll);
      }
      window.addEventListener("beforeprint", () => paper(true));
      window.addEventListener("afterprint", () => paper(false));
      let width = window.innerWidth;
      window.addEventListener("resize", () => {
        // A bar that slides away on a telephone changes the height alone.
        if (window.innerWidth === width) return;
        width = window.innerWidth;
        redrawAll();
      });
      performance.mark("ctfa-ready");
      document.documentElement.dataset.ready = "yes";
    }),
  );
}

start();
