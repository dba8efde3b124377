// Why a group is one: each merge with what it saved and paid; and the nearest one it refused.
const FEW = 5;

function whyChart(box, group) {
  const steps = [];
  const sides = new Map();
  const walk = [treeOf(group).root];
  while (walk.length) {
    const node = walk.pop();
    if (!node || node.step < 0) continue;
    steps.push(node.step);
    sides.set(node.step, node);
    walk.push(node.left, node.right);
  }
  steps.sort((a, b) => b - a);
  const { evidence } = page;
  const sizes = evidence
    ? steps
        .filter((s) => s < evidence.gain.length)
        .flatMap((s) => [Math.abs(evidence.saved[s]), Math.abs(evidence.paid[s])])
        .filter(Number.isFinite)
    : [];
  const most = largest(sizes, 1e-12);
  const draw = (shown) =>
    put(
      box,
      refusalText(group),
      steps.length
        ? element(
            "ol",
            { class: "merge-list" },
            ...steps.slice(0, shown).map((step) => mergeItem(sides.get(step), most)),
          )
        : null,
      steps.length > shown
        ? element(
            "button",
            {
              type: "button",
              class: "more no-print",
              onclick: () => draw(Math.min(steps.length, shown === FEW ? 60 : steps.length)),
            },
            shown === FEW && steps.length > 60
              ? "Show 60 merges"
              : `Show all ${plural(steps.length, "merge", "merges")}`,
          )
        : null,
    );
  draw(window.matchMedia("print").matches ? 30 : FEW);
}

function mergeItem(node, most) {
  const { evidence } = page,
    step = node.step;
  const what = element(
    "p",
    { class: "merge-what", dir: "auto" },
    `${sideText(node.left)} with ${sideText(node.right)}`,
  );
  const asked = page.rule.counted ? "" : `, limit ${fixed(page.rule.limit)}`;
  const loss =
    step < page.rule.n_joined
      ? `loss ${fixed(merges.loss[step])}, joined first as requested`
      : `loss ${fixed(merges.loss[step])}${asked}`;
  if (!evidence || step >= evidence.gain.length) {
    return element(
      "li",
      {},
      what,
      element(
        "p",
        { class: "merge-facts" },
        step >= chosenStep ? `${loss}: beyond these groups` : loss,
      ),
    );
  }
  const { f, f_star: even, gain, gain_error: spread, saved, paid, n_losers: losers } = evidence;
  const { score } = evidence;
  const told =
    score && Number.isFinite(score[step])
      ? `score on held-out folds ${gainText(score[step])} (predicted ${gainText(gain[step])})`
      : `predicted gain ${gainText(gain[step], spread[step])}`;
  const facts = [
    Number.isFinite(f[step]) ? `F ${fixed(f[step])}, break-even ${fixed(even[step])}` : null,
    loss,
    `${told}${page.standardised ? " of a variance" : ""}, summed over ${plural(
      node.size,
      page.task,
      page.tasks,
    )}`,
    evidence.together
      ? `found together in ${(100 * evidence.together[step]).toFixed(0)}\u202f% of subsamples`
      : null,
  ];
  return element(
    "li",
    {},
    what,
    Number.isFinite(saved[step]) ? pairOfBars(saved[step], paid[step], most) : null,
    element("p", { class: "merge-facts" }, facts.filter(Boolean).join(" \u00b7 ")),
    losers[step]
      ? element(
          "p",
          { class: "merge-facts loss", dir: "auto" },
          `predicted to lose by it: ${losersText(step)}`,
        )
      : null,
  );
}

function losersText(step) {
  const { losers, losers_end: ends, n_losers: n } = page.evidence;
  const names = Array.from(losers.subarray(ends[step], ends[step + 1]), (i) => page.names[i]);
  return listed(names, 6, n[step]);
}

function pairOfBars(saved, paid, most) {
  const bar = (name, value, kind) => [
    element("span", { class: "pair-name" }, name),
    svg(
      "svg",
      {
        class: "pair-svg",
        viewBox: "0 0 100 10",
        preserveAspectRatio: "none",
        "aria-hidden": "true",
      },
      svg("rect", {
        x: 0,
        y: 1,
        width: 100 * Math.min(1, Math.max(0, value / most)),
        height: 8,
        class: kind,
      }),
    ),
    element(
      "span",
      { class: "pair-value" },
      gainText(value).replace("+", ""),
      value < 0 ? " (by chance)" : "",
    ),
  ];
  return element(
    "div",
    { class: "pair" },
    ...bar("variance saved", saved, "saved"),
    ...bar("bias paid", paid, "paid"),
  );
}

// Why the group is not larger, in the words of the model's own explanation.
function refusalText(group) {
  const chosen = atChosenLimit(group);
  if (chosen < 0) {
    return element(
      "p",
      { class: "refusal" },
      "At another limit than the chosen one the page knows merges, but not what was refused.",
    );
  }
  const { candidate, loss, reason, by_guard: guarded, reasons } = page.refusals;
  const why = reasons[reason[chosen]];
  if (guarded[chosen])
    return element(
      "p",
      { class: "refusal" },
      `Why not more: the guard refused every remaining merge: ${why}.`,
    );
  if (candidate[chosen] < 0)
    return element("p", { class: "refusal" }, `No candidate was refused: ${why}.`);
  const other = chosenGroups.labels[candidate[chosen]],
    size = chosenGroups.size(other);
  const single = page.rule.asks_once || size === 1;
  const who = element(
    "button",
    { type: "button", class: "link", onclick: () => selectTarget(candidate[chosen]) },
    single
      ? page.names[candidate[chosen]]
      : `group ${other} (${plural(size, page.task, page.tasks)})`,
  );
  return element(
    "p",
    { class: "refusal", dir: "auto" },
    page.rule.counted ? "Next would be " : "Nearest refused: ",
    who,
    page.rule.counted
      ? `, loss ${fixed(loss[chosen])}: ${why}.`
      : `, loss ${fixed(loss[chosen])}${page.rule.asks_once ? " when it was asked," : ""} above the limit ${fixed(
          page.rule.limit,
        )}: ${why}.`,
  );
}
