// Elements are built, never parsed: strings from the data become text nodes and attributes only.

const packed = JSON.parse(document.getElementById("data").textContent);
const data = typeof packed === "string" ? await unpack(packed) : packed;

/** Data from the base64 of its compressed JSON; only large pages have that. */
function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
}

const NO_VALUE = "–";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) node.style.setProperty(name, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** An HTML element; names that start with "on" are listeners, those with "--" are custom properties. */
function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. */
function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function swatch(name) {
  const kind = data.kinds[name];
  return h("span", { class: "swatch", "--role": kind.colour, "--ink": kind.ink, "aria-hidden": "true" }, kind.letter);
}

/** A bar for a share from 0 to 1. */
function track(share, kind = "") {
  return h("div", { class: `track ${kind}` }, h("i", { "--part": Math.min(1, share ?? 0) }));
}
