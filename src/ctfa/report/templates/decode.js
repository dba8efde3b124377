// Page data: JSON in which arrays are base64 of numbers as the machine has them.
const KINDS = {
  u1: Uint8Array,
  u2: Uint16Array,
  u4: Uint32Array,
  i1: Int8Array,
  i2: Int16Array,
  i4: Int32Array,
  f4: Float32Array,
};

function decode(value) {
  if (Array.isArray(value)) return value.map(decode);
  if (value === null || typeof value !== "object") return value;
  if (typeof value.base64 === "string" && value.dtype in KINDS) return decodeArray(value);
  for (const key of Object.keys(value)) value[key] = decode(value[key]);
  return value;
}

function decodeArray({ dtype, shape, base64 }) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const array = new KINDS[dtype](bytes.buffer);
  array.width = shape.length > 1 ? shape[1] : 1;
  return array;
}

const page = decode(JSON.parse(document.getElementById("data").textContent));
page.rule.limit = Number(page.rule.limit);
const nTargets = page.n_targets;

// What is shown: the number of merges done, the target selected, what colours mean.
const state = { step: 0, target: 0, colour: "group", feature: 0, groups: null };
const watchers = { at_once: [], soon: [] };
const MANY = 5000;
let waiting = null;

// What is looked at while the slider moves is drawn at once, of many targets the rest a little later.
function onChange(watcher, when = "soon") {
  watchers[nTargets > MANY ? when : "at_once"].push(watcher);
}

// Tell everybody what changed: "groups", "selection", "colour" or "size".
function changed(...what) {
  for (const watcher of watchers.at_once) watcher(new Set(what));
  if (!watchers.soon.length) return;
  if (waiting) clearTimeout(waiting.timer);
  const all = new Set([...(waiting ? waiting.what : []), ...what]);
  const tell = () => {
    waiting = null;
    for (const watcher of watchers.soon) watcher(all);
  };
  waiting = { what: all, timer: setTimeout(tell, 90) };
}
