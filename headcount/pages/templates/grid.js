// The grid of heads: coloured by what leads each head or by any number, with a tooltip and arrow keys.

const cells = [...document.querySelectorAll(".cell")];
const place = new Map(data.heads.map((head, index) => [head, index]));
const asKinds = new Map(cells.map((cell) => [cell, { class: cell.className, label: cell.ariaLabel, style: cell.getAttribute("style"), nodes: [...cell.childNodes] }]));
const tip = document.getElementById("tip");
let shownMap = null;
let shownFilter = null;

function colourBy(key) {
  shownMap = data.maps.find((map) => map.key === key) ?? null;
  document.getElementById("colour-by").value = shownMap ? key : "";
  document.getElementById("kind-legend").hidden = shownMap !== null;
  document.getElementById("map-legend").hidden = shownMap === null;
  if (shownMap) showScale(shownMap);
  const widths = new Map(cells.map((cell) => [cell.parentElement, cell.clientWidth]));
  for (const cell of cells) {
    if (shownMap) showValue(cell, shownMap, widths.get(cell.parentElement));
    else showKind(cell);
  }
  if (shownMap) ["on-light", "on-dark"].forEach((ink, i) => inked(i === 1).forEach((cell) => cell.classList.add(ink)));
  highlight(shownMap ? null : shownFilter);
  markGone();
  markCurrent();
}

function showScale(map) {
  document.getElementById("map-about").textContent = map.about ? `${map.label}: ${map.about}.` : map.label;
  document.getElementById("scale-low").textContent = map.low_text;
  document.getElementById("scale-high").textContent = map.high_text;
  document.getElementById("scale-bar").className = map.scale;
  document.getElementById("unmeasured").hidden = !map.values.includes(null);
  document.getElementById("sure-key").hidden = map.sure === null;
  document.getElementById("sure-about").textContent = map.sure_about;
}

/** Cells with a number on a dark colour, or on a light one, by the lightness that the browser computed. */
function inked(dark) {
  const lightness = (cell) => parseFloat(/^oklab\(([\d.]+)/.exec(getComputedStyle(cell).backgroundColor)?.[1] ?? 1);
  return cells.filter((cell) => !cell.classList.contains("missing") && (lightness(cell) < 0.56) === dark);
}

function showKind(cell) {
  const saved = asKinds.get(cell);
  cell.className = saved.class;
  cell.ariaLabel = saved.label;
  if (saved.style === null) cell.removeAttribute("style");
  else cell.setAttribute("style", saved.style);
  cell.replaceChildren(...saved.nodes);
}

const DIGIT = 8.2;  // widest digit in pixels

// Cells are small: no percent sign, and .0031 for 0.0031.
const short = (text) => text.replace(/\s?%$/, "").replace(/^([<−]?)0(?=\.\d{3})/, "$1");

function showValue(cell, map, width) {
  const index = place.get(cell.dataset.head);
  const value = map.values[index];
  cell.ariaLabel = `${cell.dataset.head}: ${map.label} ${value === null ? "not measured" : map.texts[index]}`;
  const text = value === null ? NO_VALUE : short(map.texts[index]);
  cell.replaceChildren(text.length * DIGIT <= width ? text : "");  // a narrow cell has its colour only
  const sure = map.sure?.[index] ?? false;
  if (sure) cell.ariaLabel += `; ${map.sure_about}`;
  cell.className = `cell value ${value === null ? "missing" : map.scale}${sure ? " sure" : ""}`;
  if (value !== null) setColour(cell, map, value);
}

// A sequential scale runs low - middle - high: its hue shifts, so that steps stay visible.
function setColour(cell, map, value) {
  const range = map.high - map.low;
  const part = range > 0 ? (value - map.low) / range : 0;
  if (map.scale === "diverging") {
    const size = Math.abs(2 * part - 1);
    cell.style.setProperty("--to", part < 0.5 ? "var(--minus)" : "var(--plus)");
    cell.style.setProperty("--part", `${100 * size}%`);
    return;
  }
  const upper = part >= 0.5;
  cell.style.setProperty("--from", upper ? "var(--middle)" : "var(--low)");
  cell.style.setProperty("--to", upper ? "var(--high)" : "var(--middle)");
  cell.style.setProperty("--part", `${100 * (upper ? 2 * part - 1 : 2 * part)}%`);
}

/** Show only the heads that a chip names, such as "kind:first" or "verdict:role"; null means all heads. */
function highlight(filter) {
  shownFilter = filter;
  const [name, value] = (filter ?? "").split(":");
  for (const chip of document.querySelectorAll(".chip")) chip.ariaPressed = String(chip.dataset.filter === filter);
  for (const cell of cells) cell.classList.toggle("dim", filter !== null && cell.dataset[name] !== value);
}

/** Show only some heads, for the moment; null means all that the chips show. */
function dimOthers(heads) {
  if (heads === null) return highlight(shownMap ? null : shownFilter);
  for (const cell of cells) cell.classList.toggle("dim", !heads.has(cell.dataset.head));
}

function showTip(cell) {
  const card = data.cards[cell.dataset.head];
  const index = place.get(cell.dataset.head);
  tip.replaceChildren(h("b", {}, card.head));
  if (shownMap) tip.append(` ${shownMap.label} ${shownMap.values[index] === null ? "not measured" : shownMap.texts[index]}`);
  else if (card.findings.length) tip.append(` ${card.findings[0].verdict}: ${card.findings[0].text}`);
  else tip.append(` ${data.nothing}`);
  tip.hidden = false;
  const box = cell.getBoundingClientRect();
  const left = Math.max(8, Math.min(box.left + box.width / 2 - tip.offsetWidth / 2, document.documentElement.clientWidth - tip.offsetWidth - 8));
  tip.style.left = `${left + scrollX}px`;
  tip.style.top = `${box.top + scrollY - tip.offsetHeight - 8}px`;
}

function markCurrent() {
  const head = openHead();
  for (const cell of cells) {
    const current = cell.dataset.head === head;
    if (current) cell.setAttribute("aria-current", "true");
    else cell.removeAttribute("aria-current");
  }
}
