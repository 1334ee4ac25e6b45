// Tables as CSV, figures as SVG and PNG, all made here: nothing is requested.

const LOOK = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "opacity", "font-family", "font-size", "font-weight", "text-anchor"];
const MARGIN = 14;
const LINE = 24;

function download(name, blob) {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const fileName = (title, ending) => `${data.title}-${title}`.normalize("NFKD").replace(/[^A-Za-z0-9.-]+/g, "-").replace(/^[-.]+|-+$/g, "").toLowerCase().slice(0, 80) + `.${ending}`;

/** Rows of texts as CSV; a text that a spreadsheet would run as a formula gets an apostrophe. */
function csv(rows) {
  const cell = (text) => {
    const safe = /^[=+\-@\t\r\n]/.test(text.slice(0, 1).normalize("NFKC")) && !/^[+-]?[\d.]+(e[+-]?\d+)?$/i.test(text) ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return rows.map((row) => row.map((text) => cell(String(text ?? ""))).join(",")).join("\r\n") + "\r\n";
}

/** Text of a cell as a number where it is one: a true minus, no thousands separators, no dash for "not measured". */
function cellText(cell) {
  const text = [...cell.childNodes].map((node) => (node.nodeName === "SMALL" ? ` (${node.textContent})` : node.textContent)).join("").replace(/\s+/g, " ").trim();
  if (text === NO_VALUE) return "";
  return text.replace(/−/g, "-").replace(/\b(\d{1,3})(,\d{3})+\b/g, (number) => number.replaceAll(",", ""));
}

function tableRows(table) {
  const rows = [...table.rows].map((row) => [...row.cells].map(cellText));
  const isShare = (column) => rows.length > 1 && rows.slice(1).every((row) => /^(|[+-]?[\d.]+ ?%)$/.test(row[column] ?? "")) && rows.slice(1).some((row) => row[column]);
  rows[0].forEach((title, column) => {
    if (!isShare(column)) return;
    rows[0][column] = `${title} (%)`;
    for (const row of rows.slice(1)) row[column] = row[column].replace(/ ?%$/, "");
  });
  const keep = rows[0].map((_, column) => rows.slice(1).some((row) => row[column]));
  return rows.map((row) => row.filter((_, column) => keep[column]));
}

/** All numbers of all heads, from the data rather than from rounded texts. */
function headRows() {
  return [
    ["head", "roles", ...data.maps.map((map) => map.label)],
    ...data.heads.map((head, i) => [head, data.cards[head].roles.join(" "), ...data.maps.map((map) => map.values[i])]),
  ];
}

/** A copy of a drawing that looks the same outside of the page. */
function standalone(drawing) {
  const copy = drawing.cloneNode(true);
  const [from, to] = [drawing, copy].map((root) => [root, ...root.querySelectorAll("*")]);
  from.forEach((node, i) => {
    const look = getComputedStyle(node);
    to[i].removeAttribute("class");
    to[i].setAttribute("style", LOOK.map((name) => `${name}:${look.getPropertyValue(name)}`).join(";"));
  });
  return copy;
}

function label(text, x, y, weight = 400) {
  const look = getComputedStyle(document.body);
  return s("text", { x, y, style: `font-family:${look.fontFamily};font-size:15px;font-weight:${weight};fill:${look.color}` }, text);
}

/** A drawing below its title as one SVG element, as large as it is shown. */
function pictureOf(drawing, title) {
  const [, , across, down] = drawing.getAttribute("viewBox").split(" ").map(Number);
  const width = Number(drawing.getAttribute("width"));
  const height = (down * width) / across;
  const copy = standalone(drawing);
  fill(copy, { x: MARGIN, y: LINE + MARGIN, width, height }, []);
  const picture = s("svg", { xmlns: "http://www.w3.org/2000/svg" }, label(title, MARGIN, LINE, 600), copy);
  return sized(picture, width + 2 * MARGIN, LINE + 3 * MARGIN + height);
}

function sized(picture, width, height) {
  const paper = getComputedStyle(document.body).backgroundColor;
  fill(picture, { width, height, viewBox: `0 0 ${width} ${height}` }, []);
  picture.prepend(s("rect", { width, height, style: `fill:${paper}` }));
  return picture;
}

function saveSvg(picture, title) {
  download(fileName(title, "svg"), new Blob([new XMLSerializer().serializeToString(picture)], { type: "image/svg+xml" }));
}

async function savePng(picture, title) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(picture))}`;
  await image.decode();
  const scale = 2;
  const canvas = h("canvas", { width: scale * picture.getAttribute("width"), height: scale * picture.getAttribute("height") });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  canvas.toBlob((blob) => download(fileName(title, "png"), blob), "image/png");
}

/** Small buttons, each with a title and what it does. */
function getters(subject, ...actions) {
  const one = ([text, act]) => h("button", { type: "button", title: `Download as ${text}`, "aria-label": `${subject} as ${text}`, onclick: act }, text);
  return h("span", { class: "get" }, ...actions.map(one));
}

function pictureGetters(title, make) {
  return getters(title, ["SVG", () => saveSvg(make(), title)], ["PNG", () => savePng(make(), title)]);
}

/** Heading under which a node stands. */
function titleOf(node) {
  const inside = node.closest("figure")?.querySelector("figcaption") ?? node.closest("details")?.querySelector("summary");
  if (inside) return inside.firstChild.textContent.trim();
  for (let at = node; at; at = at.parentElement) {
    for (let before = at.previousElementSibling; before; before = before.previousElementSibling) {
      if (/^H[234]$/.test(before.tagName)) return before.firstChild.textContent.trim();
    }
  }
  return "table";
}

/** Puts buttons on the line of the heading just above a table, else directly above the table. */
function atHeading(table, buttons) {
  const box = table.closest(".scroll") ?? table;
  let above = box.previousElementSibling;
  while (above?.matches("p")) above = above.previousElementSibling;
  (above?.matches("h2, h3, h4") ? above : box).before(buttons);
}

/** Adds the buttons to all figures and tables below a node. */
function offerDownloads(root) {
  for (const drawing of root.querySelectorAll(".chart svg.drawn")) {
    const figure = drawing.closest("figure");
    const title = titleOf(drawing);
    const caption = figure.querySelector("figcaption");
    const buttons = pictureGetters(title, () => pictureOf(drawing, title));
    if (caption) caption.append(buttons);
    else figure.prepend(buttons);
  }
  for (const table of root.querySelectorAll("table")) {
    const title = titleOf(table);
    const rows = table.matches(".sortable") ? headRows : () => tableRows(table);
    const buttons = getters(title, ["CSV", () => download(fileName(title, "csv"), new Blob(["\ufeff", csv(rows())], { type: "text/csv" }))]);
    atHeading(table, buttons);
  }
}

/** Copies a signature; file:// may refuse the clipboard, so it is selected then. */
async function copy(event) {
  const signature = event.target.previousElementSibling;
  try {
    await navigator.clipboard.writeText(signature.textContent);
    event.target.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(signature);
    event.target.textContent = "Selected";
  }
}

for (const button of document.querySelectorAll(".signature button")) button.addEventListener("click", copy);
