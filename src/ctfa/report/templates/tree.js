// The merge tree of the selected group, or of all groups; branches too many to draw are bundled.
const LEAVES = 36,
  LEAF = 17;
let wholeTree = false;

function drawTree() {
  const group = selectedGroup();
  const alone = state.groups.size(group) === 1;
  const whole = wholeTree || alone;
  const tree = whole ? treeOf(-1, merges.n) : treeOf(group);
  const roots = whole ? tree.roots : tree.root ? [tree.root] : [];
  byId("panel-tree").hidden = roots.length === 0;
  if (!roots.length) return;
  const box = caption(
    "panel-tree",
    whole ? "Merge tree of all groups" : "Merge tree of the group",
    "from left to right the loss at which branches join; dashed: the limit shown",
  );
  const button = alone
    ? null
    : element(
        "button",
        {
          type: "button",
          class: "more no-print",
          onclick: () => {
            wholeTree = !wholeTree;
            drawTree();
          },
        },
        wholeTree ? "Show the tree of this group" : "Show the tree of all groups",
      );
  put(box, treeFigure(box, cutTrees(roots)), button);
}

// Open the costliest merges until there are leaves enough; what stays closed is a bundle.
function cutTrees(roots) {
  const open = new Set();
  const front = [...roots].sort((a, b) => b.size - a.size).slice(0, LEAVES);
  let leaves = front.length;
  const waiting = front.filter((node) => node.step >= 0);
  while (waiting.length && leaves < LEAVES) {
    let best = 0;
    for (let k = 1; k < waiting.length; k++) if (waiting[k].height > waiting[best].height) best = k;
    const [node] = waiting.splice(best, 1);
    open.add(node);
    leaves++;
    for (const child of [node.left, node.right]) if (child.step >= 0) waiting.push(child);
  }
  return { front, open, left: roots.length - front.length };
}

function treeFigure(box, { front, open, left }) {
  const width = Math.max(280, box.clientWidth),
    label = Math.min(170, width * 0.36);
  const lines = [];
  const texts = [];
  let row = 0,
    most = -Infinity,
    least = Infinity;
  for (const node of open) {
    most = Math.max(most, node.height);
    least = Math.min(least, node.height);
  }
  if (!(most > least)) {
    least = (Number.isFinite(most) ? most : 1) - 1;
    most = least + 1;
  }
  const low = stretched(least) - 0.06 * (stretched(most) - stretched(least));
  const x = (h) =>
    label + 8 + ((stretched(h) - low) / (stretched(most) - low)) * (width - label - 22);
  const place = (node) => {
    if (!open.has(node)) {
      const y = LEAF * (row++ + 0.7);
      texts.push(
        svg(
          "text",
          {
            x: label,
            y: y + 4,
            class: `axis end${node.size > 1 ? " bundle" : ""}`,
            direction: "ltr",
          },
          shortened(node),
          svg("title", {}, sideText(node)),
        ),
      );
      return { y, x: label + 8, colour: colourOfNode(node) };
    }
    const a = place(node.left),
      b = place(node.right),
      at = x(node.height),
      colour = colourOfNode(node);
    for (const child of [a, b]) {
      lines.push(
        branch(`M${child.x.toFixed(1)},${child.y.toFixed(1)}H${at.toFixed(1)}`, child.colour),
      );
    }
    lines.push(branch(`M${at.toFixed(1)},${a.y.toFixed(1)}V${b.y.toFixed(1)}`, colour));
    return { y: (a.y + b.y) / 2, x: at, colour };
  };
  for (const root of front) place(root);
  const height = LEAF * row + 24;
  const parts = [...lines, ...texts];
  const limit = shownLimit;
  if (Number.isFinite(limit) && x(limit) > label && x(limit) < width) {
    parts.push(
      svg("line", { x1: x(limit), x2: x(limit), y1: 0, y2: height - 18, class: "chosen" }),
    );
  }
  for (const tick of treeTicks(least, most, x, label)) {
    parts.push(svg("text", { x: x(tick), y: height - 4, class: "axis mid" }, number(tick)));
  }
  if (left > 0)
    texts.push(
      svg("text", { x: label, y: height - 4, class: "axis end quiet" }, `and ${count(left)} more`),
    );
  return svg(
    "svg",
    {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": "Merge tree; the merges are listed in words beside it",
    },
    ...parts,
  );
}

function branch(d, colour) {
  const line = svg("path", { d, class: "branch" });
  line.style.stroke = colour;
  return line;
}

// A branch has the colour of its group as long as it is within one.
function colourOfNode(node) {
  const group = state.groups.labels[node.slot];
  return node.step < state.step && state.groups.colour[group] !== ALONE
    ? groupColour(group)
    : theme.quiet;
}

function shortened(node) {
  const name = page.names[node.first[0]];
  const text = node.size === 1 ? name : `${name} +${count(node.size - 1)}`;
  return text.length > 24 ? `${text.slice(0, 22)}\u2026` : text;
}

function treeTicks(least, most, x, label) {
  const found = [];
  let last = label - 40;
  for (const tick of [-0.9, -0.5, 0, 0.5, 1, 2, 5, 10, 30, 100, 1000, 1e4].map(
    (v) => v * 2 * unitOfLoss,
  )) {
    if (tick < least || tick > most || x(tick) - last < 36) continue;
    found.push(tick);
    last = x(tick);
  }
  return found;
}
