// Attention between the words of one text: all heads as small maps, one head as lines or as a matrix.

const looking = { attention: null, head: null, chosen: false, view: "lines", canvases: new Map(), shades: [] };
const LARGEST = 400;  // lines in a drawing; the weakest are dropped first
const VISIBLE = 13;  // 255 * 0.05: smaller weights are not drawn, except the largest of each word
const STRONGEST = 3;  // links named in words

const siteOf = (head) => looking.attention.sites.find((site) => site.short === head.split(".")[0]);

/** The weights of a head, row by row, 255 = 1. */
function weightsOf(head) {
  const [, layer, index] = head.split(".");
  return Uint8Array.from(atob(siteOf(head).maps[layer][index]), (letter) => letter.charCodeAt(0));
}

/** The grids of all heads; `below` makes what stands under each map, if anything. */
function buildGrids(below = () => null) {
  looking.canvases.clear();
  return looking.attention.sites.map((site) => {
    const layers = Object.entries(site.maps);
    const columns = Math.max(...layers.map(([, maps]) => maps.length));
    const indices = Array.from({ length: columns }, (_, index) => h("span", { class: "index", "aria-hidden": "true" }, String(index)));
    const rows = layers.flatMap(([layer, maps]) => [
      h("span", { class: "layer", "aria-hidden": "true" }, layer),
      ...maps.map((_, index) => thumb(`${site.short}.${layer}.${index}`, layer, index, below)),
      ...Array.from({ length: columns - maps.length }, () => h("span")),
    ]);
    const cells = h("div", { class: "cells thumbs", role: "group", "aria-label": `${site.title}, layers by heads` }, h("span", { class: "corner", "aria-hidden": "true" }, "layer ↓"), ...indices, ...rows);
    rove(cells, cells.querySelector("[data-row]"));
    return h("figure", { class: "grid", "--columns": columns }, h("figcaption", {}, site.title), cells);
  });
}

function thumb(head, row, column, below) {
  const canvas = h("canvas", { "aria-hidden": "true" });
  looking.canvases.set(head, canvas);
  const attributes = { type: "button", class: "thumb", "data-head": head, "data-row": row, "data-column": column, "aria-label": `head ${head}`, title: head };
  const does = { onclick: () => pressHead(head), onmouseenter: () => showHead(head), onmouseleave: () => showHead(), onkeydown: moveFocus };
  return h("div", { class: "thumb-box" }, h("button", { ...attributes, ...does }, canvas), below(head));
}

/** Paint every small map with the attention at hand. */
function paintGrids() {
  looking.shades = shades();
  for (const [head, canvas] of looking.canvases) {
    const { queries, keys } = siteOf(head);
    canvas.width = keys.length;
    canvas.height = queries.length;
    const context = canvas.getContext("2d");
    const image = context.createImageData(canvas.width, canvas.height);
    weightsOf(head).forEach((weight, place) => image.data.set(looking.shades[weight], 4 * place));
    context.putImageData(image, 0, 0);
  }
}

// The darker, the larger the root of the weight: the many small weights of a broad head stay visible.
function shades() {
  const style = getComputedStyle(document.documentElement);
  const [low, middle, high] = ["--low", "--middle", "--high"].map((name) => channels(style.getPropertyValue(name)));
  return Array.from({ length: 256 }, (_, weight) => {
    const part = 2 * Math.sqrt(weight / 255);
    const [from, to, share] = part < 1 ? [low, middle, part] : [middle, high, part - 1];
    return [...from.map((value, i) => value + share * (to[i] - value)), 255];
  });
}

const channels = (hex) => [1, 3, 5].map((start) => parseInt(hex.trim().slice(start, start + 2), 16));

function pressHead(head) {
  looking.chosen = true;
  chooseHead(head);
  if (matchMedia("(max-width: 799px)").matches) document.querySelector(".panel").scrollIntoView();
}

function chooseHead(head) {
  looking.head = head;
  for (const button of document.querySelectorAll(".thumb")) {
    if (button.dataset.head === head) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }
  showHead();
}

const NEXT = { cross: true, dec: true };  // their queries predict the word after them

/** Draw a head into the panel, by default the chosen one. */
function showHead(head = looking.head) {
  const site = siteOf(head);
  const [, layer, index] = head.split(".");
  document.getElementById("head-name").textContent = head;
  document.getElementById("head-title").textContent = `${site.title}, layer ${layer}, head ${index}${NEXT[site.short] ? ": rows predict the next word" : ""}`;
  document.getElementById("head-strongest").textContent = strongest(site, weightsOf(head));
  const views = { lines: drawLines, matrix: drawMatrix };
  document.getElementById("head-drawing").replaceChildren(...overPicture(head), views[looking.view](site, weightsOf(head)));
  for (const button of document.querySelectorAll("[data-view]")) button.setAttribute("aria-pressed", String(button.dataset.view === looking.view));
  document.dispatchEvent(new CustomEvent("head", { detail: head }));
}

/** Where words look in the picture beside the text, if there is one: the word that was pressed, or where a
 * prediction is explained, or the word that looks at the picture most. */
function overPicture(head) {
  const [short, layer, index] = head.split(".");
  const picture = looking.attention.picture;
  if (picture?.site !== short) return [];
  const last = picture.words.length - 1;
  const first = looking.word === undefined ? (data.explained ? last : undefined) : Math.min(looking.word, last);
  return [drawPlaces({ ...picture, ...picture.maps[layer][index], first, chosen: (word) => { looking.word = word; } })];
}

/** Frame every map by the root of its head's number, blue above 0 and orange below; null takes the frames away. */
function frameMaps(values) {
  const most = values ? Math.max(...Object.values(values).map(Math.abs), 1e-9) : 1;
  for (const [head, canvas] of looking.canvases) {
    const style = canvas.closest(".thumb-box").style;
    const part = (values?.[head] ?? 0) / most;
    if (values) style.setProperty("--effect", `color-mix(in oklab, var(--zero), var(--${part < 0 ? "minus" : "plus"}) ${100 * Math.sqrt(Math.abs(part))}%)`);
    else style.removeProperty("--effect");
  }
}

const NAMED = 6;  // heads that stand as buttons
const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;

/** The heads with the largest numbers, as buttons. */
function largestHeads(values, text = signed) {
  const sorted = Object.entries(values).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).slice(0, NAMED);
  const side = (value) => text !== signed ? "chip" : value < 0 ? "chip down" : "chip up";
  return h("p", { class: "chips" }, ...sorted.map(([head, value]) => h("button", { type: "button", class: side(value), onclick: () => pressHead(head) }, head, h("b", {}, text(value)))));
}

/** The largest weights between words, special tokens aside. */
function strongest(site, weights) {
  const links = [];
  site.queries.forEach((from, q) => site.keys.forEach((to, k) => {
    if (!site.special_queries[q] && !site.special_keys[k]) links.push([weights[q * site.keys.length + k], from, to]);
  }));
  links.sort((a, b) => b[0] - a[0]);
  const named = links.slice(0, STRONGEST).map(([weight, from, to]) => `${from} → ${to} ${(weight / 255).toFixed(2)}`);
  return named.length ? `Strongest between words: ${named.join(", ")}.` : "";
}

function drawLines(site, weights) {
  const width = site.keys.length;
  const found = site.queries.flatMap((_, q) => {
    const row = [...weights.subarray(q * width, (q + 1) * width)];
    const most = Math.max(...row);
    return row.flatMap((weight, k) => (weight > 0 && (weight >= VISIBLE || weight === most) ? [[q, k, weight]] : []));
  });
  found.sort((a, b) => a[2] - b[2]);
  return drawSentence({ queries: site.queries, keys: site.keys, lines: found.slice(-LARGEST).flat(), arcs: [], caption: "" });
}

const SQUARE = 18;

function drawMatrix(site, weights) {
  const { queries, keys } = site;
  const left = margin(queries);
  const top = margin(keys);
  const clipped = (text) => (text.length > 18 ? `${text.slice(0, 17)}…` : text);
  const rows = queries.map((text, q) => s("text", { class: "word", x: left - 6, y: top + SQUARE * (q + 0.72), "text-anchor": "end" }, clipped(text)));
  const columns = keys.map((text, k) => s("text", { class: "word", transform: `translate(${left + SQUARE * (k + 0.72)} ${top - 6}) rotate(-90)` }, clipped(text)));
  const squares = queries.flatMap((from, q) => keys.map((to, k) => {
    const weight = weights[q * keys.length + k];
    const colour = `rgb(${looking.shades[weight].slice(0, 3).map(Math.round).join(" ")})`;
    return s("rect", { x: left + SQUARE * k, y: top + SQUARE * q, width: SQUARE - 1, height: SQUARE - 1, fill: colour }, s("title", {}, `${from} → ${to}: ${(weight / 255).toFixed(2)}`));
  }));
  const [width, height] = [left + SQUARE * keys.length + 2, top + SQUARE * queries.length + 2];
  const drawing = s("svg", { class: "matrix-drawing", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Attention between words as a matrix: rows look at columns" }, ...rows, ...columns, ...squares);
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Matrix" }, drawing);
}

const margin = (words) => 14 + 7.4 * Math.min(18, Math.max(...words.map((word) => word.length)));

for (const button of document.querySelectorAll("[data-view]")) {
  button.addEventListener("click", () => { looking.view = button.dataset.view; showHead(); });
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  if (!looking.attention) return;
  paintGrids();
  showHead();
});
