// Colours told apart by people who see few of them; light and dark ramps from the theme.
const PALETTE = [
  "#77aadd",
  "#ee8866",
  "#44bb99",
  "#eedd88",
  "#ffaabb",
  "#aaaa00",
  "#99ddff",
  "#bb99cc",
];
const ALONE = 255;
const N_BINS = 41;
const LOSS_TO_GAIN = {
  light: ["#8c4a06", "#cf8a3c", "#f1d9b0", "#f4f4f2", "#b9dfe0", "#45a0a4", "#02595f"],
  dark: ["#f0a24a", "#b56f22", "#6b4a26", "#33383d", "#2a5c60", "#2f979b", "#7fdfe0"],
};
const LOW_TO_HIGH = {
  light: ["#eef3f7", "#c3d9e8", "#86b3d1", "#4a86b5", "#1f5a92", "#0b2f5e"],
  dark: ["#262c33", "#29435e", "#2d608c", "#3f83b8", "#79aed6", "#cfe4f5"],
};

const theme = {
  dark: false,
  ink: "",
  paper: "",
  quiet: "",
  line: "",
  alone: "",
  accent: "",
  edge: "",
};

function readTheme() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["ink", "paper", "quiet", "line", "alone", "accent", "edge"]) {
    theme[name] = style.getPropertyValue(`--${name}`).trim();
  }
  theme.dark = style.getPropertyValue("--is-dark").trim() === "1";
}

function groupColour(group) {
  const index = state.groups.colour[group];
  return index === ALONE ? theme.alone : PALETTE[index];
}

function ramp(stops, n = N_BINS) {
  const rgb = stops.map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));
  return Array.from({ length: n }, (_, i) => {
    const place = (i / (n - 1)) * (rgb.length - 1);
    const low = Math.min(Math.floor(place), rgb.length - 2);
    const mix = rgb[low].map((c, k) => Math.round(c + (place - low) * (rgb[low + 1][k] - c)));
    return `rgb(${mix.join(",")})`;
  });
}

// What the map may show: a name, values of targets, and how they become colours.
function colourings() {
  const all = [{ id: "group", name: "group" }];
  const { gain, trust, stability, errors, skills, held_out_gain: found } = page.targets;
  const diverging = (id, name, values, show) => all.push({ id, name, values, show, around: 0 });
  const rising = (id, name, values, show) => all.push({ id, name, values, show });
  const ours = page.held_out && errors[page.held_out.methods[0]];
  if (found) diverging("held-out", "held-out gain", found, percent);
  if (gain) diverging("gain", page.gain_name, gain, gainText);
  for (const [name, values] of Object.entries(skills))
    diverging(
      name.replaceAll(" ", "-"),
      name === "skill" ? "held-out skill" : name,
      values,
      (x) => fixed(x, 2),
    );
  if (page.features && page.features.value) {
    diverging("coefficient", page.features.what, null, (x) => signed(fixed(x), x));
  }
  if (ours) rising("error", "held-out error", ours, number);
  if (trust) rising("trust", "trust in the group", trust, (x) => percent(x, 0).replace("+", ""));
  if (stability) {
    rising("stability", "stability", stability, (x) => percent(x, 0).replace("+", ""));
  }
  return all;
}

// The coefficient of one feature for every target: that of its group at the chosen limit.
function coefficientOfTargets(feature) {
  const { value, names } = page.features;
  const row = rowOfGroup();
  return Float32Array.from(page.labels, (group) =>
    row[group] < 0 ? NaN : value[row[group] * names.length + feature],
  );
}

// Where the details of each group of the chosen limit are kept; -1 where they are not.
function rowOfGroup() {
  if (!rowOfGroup.known) {
    rowOfGroup.known = new Int32Array(page.n_groups).fill(-1);
    page.details.forEach((group, row) => {
      rowOfGroup.known[group] = row;
    });
  }
  return rowOfGroup.known;
}

// A scale for values: its ends, its colours and the bin of each value.
function scaleOf({ values, around }) {
  const stops = (around === undefined ? LOW_TO_HIGH : LOSS_TO_GAIN)[theme.dark ? "dark" : "light"];
  let low, high;
  if (around === undefined) [low, high] = [quantile(values, 0.02), quantile(values, 0.98)];
  else {
    high =
      quantile(
        Float64Array.from(values, (v) => Math.abs(v - around)),
        0.97,
      ) || 1;
    low = -high;
  }
  if (!(high > low)) {
    low -= 0.5;
    high += 0.5;
  }
  const colours = [...ramp(stops), theme.alone];
  const bin = (v) =>
    Number.isFinite(v)
      ? Math.max(0, Math.min(N_BINS - 1, Math.round(((v - low) / (high - low)) * (N_BINS - 1))))
      : N_BINS;
  return { low, high, colours, bin };
}
