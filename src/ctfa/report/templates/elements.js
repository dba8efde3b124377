// Elements and numbers as text. Text from the data is only ever set as text, never as markup.
const byId = (id) => document.getElementById(id);

function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

function put(node, ...children) {
  node.replaceChildren(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const grouped = new Intl.NumberFormat("en");
const count = (n) => grouped.format(n);
const plural = (n, one, many) => `${count(n)} ${n === 1 ? one : many}`;
const minus = (text) => text.replace("-", "\u2212");

// As many digits as a reader needs.
function number(x, digits = 3) {
  if (x === Infinity || x > 1e30) return "\u221e";
  if (x === -Infinity || x < -1e30) return "\u2212\u221e";
  if (!Number.isFinite(x)) return "\u2013";
  if (x !== 0 && (Math.abs(x) >= 1e5 || Math.abs(x) < 1e-3)) return minus(x.toExponential(1));
  const shown = Number(x.toPrecision(digits));
  return minus(Math.abs(shown) >= 1000 ? count(Math.round(shown)) : String(shown));
}

function fixed(x, decimals = 2) {
  if (!Number.isFinite(x) || Math.abs(x) >= 1e4) return number(x);
  return minus(x.toFixed(decimals));
}

function signed(text, x) {
  return x > 0 ? `+${text}` : text;
}

// A gain in units of variance is a percentage of it.
function percent(x, decimals = 1) {
  if (!Number.isFinite(x)) return "\u2013";
  const text = (100 * x).toFixed(decimals);
  // What rounds to nothing has no sign.
  return (Number(text) === 0 ? text.replace("-", "") : signed(minus(text), x)) + "\u202f%";
}

function gainText(x, error) {
  if (!Number.isFinite(x)) return "\u2013";
  if (!page.standardised) {
    const about = Number.isFinite(error) ? ` \u00b1 ${number(error, 2)}` : "";
    return signed(number(x), x) + about;
  }
  const about = Number.isFinite(error) ? ` \u00b1 ${(100 * error).toFixed(1)}` : "";
  return signed(minus((100 * x).toFixed(1)), x) + about + "\u202f%";
}

function listed(names, atMost = 3, total = names.length) {
  const shown = names.slice(0, atMost);
  const more = total - shown.length;
  return shown.join(", ") + (more > 0 ? ` and ${count(more)} more` : "");
}

function mean(values) {
  let sum = 0,
    n = 0;
  for (const value of values)
    if (Number.isFinite(value)) {
      sum += value;
      n++;
    }
  return n ? sum / n : NaN;
}

// Of any number of values: a call has room for some ten thousand only.
function largest(values, least = -Infinity) {
  for (const value of values) if (value > least) least = value;
  return least;
}

// Value below which a share of the finite values lie.
function quantile(values, share) {
  const known = Float64Array.from(values).filter(Number.isFinite).sort();
  return known.length ? known[Math.min(known.length - 1, Math.floor(share * known.length))] : NaN;
}

// A box of many entries is one stop for the tab key: inside it arrows go from entry to entry.
function arrowKeys(box, entries, current, select) {
  box.addEventListener("keydown", (event) => {
    const all = entries(),
      at = all.indexOf(current());
    const to = {
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      Home: 0,
      End: all.length - 1,
      PageDown: at + 8,
      PageUp: at - 8,
    }[event.key];
    if (to === undefined || !all.length) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(all.length - 1, to));
    select(all[next], next);
  });
}

// Rows of one height of which only those in sight are in the page; all of them on paper.
function virtualRows(box, height, draw) {
  let n = 0,
    queued = false;
  const paper = window.matchMedia("print");
  const show = () => {
    queued = false;
    if (paper.matches) return draw(0, Math.min(n, 400), n);
    const first = Math.max(0, Math.floor(box.scrollTop / height) - 6);
    draw(first, Math.min(n, first + Math.ceil(box.clientHeight / height) + 12), n);
  };
  box.addEventListener(
    "scroll",
    () => {
      if (!queued) requestAnimationFrame(show);
      queued = true;
    },
    { passive: true },
  );
  paper.addEventListener("change", show);
  return {
    update(total) {
      n = total;
      show();
    },
    reveal(row) {
      const top = row * height;
      if (top < box.scrollTop) box.scrollTop = top;
      else if (top + height > box.scrollTop + box.clientHeight - height) {
        box.scrollTop = top - box.clientHeight + 2 * height;
      }
      show();
    },
  };
}
