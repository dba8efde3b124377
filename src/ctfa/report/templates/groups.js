// Groups at any number of merges: the history replayed, members, neighbours and colours.
const merges = (() => {
  const { block, other, loss } = page.history;
  const height = new Float64Array(loss.length);
  let highest = -Infinity;
  const joined = page.rule.n_joined; // whatever they cost: no limit undoes them
  for (let i = joined; i < loss.length; i++) height[i] = highest = Math.max(highest, loss[i]);
  height.fill(Math.min(0, height[joined] ?? 0), 0, joined);
  return { block, other, loss, height, n: loss.length };
})();

// Merges done with a limit: those before the first that costs more.
function stepAt(limit) {
  let low = 0,
    high = merges.n;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (merges.height[middle] <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

const chosenStep = page.rule.n_own;

// Group of each target after so many merges, numbered by first member as the model numbers them.
function labelsAt(step) {
  const root = new Int32Array(nTargets);
  for (let i = 0; i < nTargets; i++) root[i] = i;
  // Backwards, so that each slot points at where its block ended up by then.
  for (let i = step - 1; i >= 0; i--) root[merges.other[i]] = root[merges.block[i]];
  const number = new Int32Array(nTargets).fill(-1);
  const labels = new Int32Array(nTargets);
  let n = 0;
  for (let i = 0; i < nTargets; i++) {
    if (number[root[i]] < 0) number[root[i]] = n++;
    labels[i] = number[root[i]];
  }
  return { labels, n };
}

function groupsAt(step) {
  const { labels, n } = labelsAt(step);
  const start = new Int32Array(n + 1);
  for (const label of labels) start[label + 1]++;
  for (let g = 0; g < n; g++) start[g + 1] += start[g];
  const place = start.slice(0, n);
  const member = new Int32Array(nTargets);
  for (let i = 0; i < nTargets; i++) member[place[labels[i]]++] = i;
  const groups = {
    step,
    labels,
    n,
    size: (g) => start[g + 1] - start[g],
    members: (g) => member.subarray(start[g], start[g + 1]),
  };
  groups.colour = coloursOf(groups);
  return groups;
}

// Pairs of targets that touch, each once: from sides that two outlines share, or given for dots.
const touching = (() => {
  const { kind, across, starts, owner, pairs } = page.drawing;
  if (kind === "dots") return pairs;
  const found = [];
  for (let ring = 0; ring < owner.length; ring++) {
    for (let k = starts[ring], last = -1; k < starts[ring + 1]; k++) {
      const there = across[k];
      if (there < nTargets && owner[ring] < there && there !== last) found.push(owner[ring], there);
      last = there;
    }
  }
  return Int32Array.from(found);
})();

let chosenGroups = null;

// A colour for each group that none of its neighbours has, near to those of the chosen limit.
function coloursOf({ labels, n, size, members }) {
  const degree = new Int32Array(n + 1);
  const differ = [];
  for (let p = 0; p < touching.length; p += 2) {
    const a = labels[touching[p]],
      b = labels[touching[p + 1]];
    if (a !== b) {
      differ.push(a, b);
      degree[a + 1]++;
      degree[b + 1]++;
    }
  }
  for (let g = 0; g < n; g++) degree[g + 1] += degree[g];
  const place = degree.slice(0, n);
  const beside = new Int32Array(differ.length);
  for (let p = 0; p < differ.length; p += 2) {
    beside[place[differ[p]]++] = differ[p + 1];
    beside[place[differ[p + 1]]++] = differ[p];
  }
  const colour = new Uint8Array(n).fill(ALONE);
  const order = [];
  for (let g = 0; g < n; g++) if (size(g) > 1) order.push(g);
  order.sort((a, b) => size(b) - size(a));
  const used = new Int32Array(PALETTE.length);
  for (const g of order) {
    let taken = 0;
    for (let k = degree[g]; k < degree[g + 1]; k++) {
      if (colour[beside[k]] !== ALONE) taken |= 1 << colour[beside[k]];
    }
    const wanted = chosenGroups ? chosenGroups.colour[chosenGroups.labels[members(g)[0]]] : ALONE;
    let best = wanted !== ALONE && !(taken & (1 << wanted)) ? wanted : -1;
    for (let c = 0; best < 0 && c < PALETTE.length; c++) {
      if (!(taken & (1 << c))) best = c;
    }
    // Of those that are free the one that is rarest so far: all colours are seen.
    if (wanted === ALONE || best !== wanted) {
      for (let c = 0; c < PALETTE.length; c++) {
        if (!(taken & (1 << c)) && used[c] < used[best]) best = c;
      }
    }
    colour[g] = Math.max(best, 0);
    used[colour[g]]++;
  }
  return colour;
}

function setStep(step) {
  state.step = Math.max(0, Math.min(merges.n, step));
  state.groups = state.step === chosenStep && chosenGroups ? chosenGroups : groupsAt(state.step);
}

function selectTarget(target) {
  state.target = target;
  changed("selection");
}

const selectedGroup = () => state.groups.labels[state.target];

// The same group at the chosen limit, or -1 where that one has other members.
function atChosenLimit(group) {
  const own = state.groups.members(group);
  const chosen = chosenGroups.labels[own[0]];
  return chosenGroups.size(chosen) === own.length &&
    own.every((i) => chosenGroups.labels[i] === chosen)
    ? chosen
    : -1;
}

// Merges that made a group, as a tree: leaves are targets, and every node knows its first names.
function treeOf(group, step = state.step, labels = state.groups.labels) {
  const node = new Map();
  const get = (slot) =>
    node.get(slot) || { slot, size: 1, step: -1, height: -Infinity, first: [slot] };
  let root = null;
  for (let i = 0; i < step; i++) {
    if (group >= 0 && labels[merges.block[i]] !== group) continue;
    const left = get(merges.block[i]),
      right = get(merges.other[i]);
    root = {
      slot: merges.block[i],
      step: i,
      left,
      right,
      size: left.size + right.size,
      height: merges.height[i],
      first: [...left.first, ...right.first].sort((a, b) => a - b).slice(0, 3),
    };
    node.set(merges.block[i], root);
    node.delete(merges.other[i]);
  }
  return { root, roots: [...node.values()] };
}

function sideText(side) {
  if (side.size === 1) return page.names[side.slot];
  return `${plural(side.size, page.task, page.tasks)} (${listed(
    side.first.map((i) => page.names[i]),
    2,
    side.size,
  )})`;
}
