// The map as a picture: what the cells show now, with the legend that stands above them.

const SIDE = { width: 46, height: 34, gap: 2, axis: 34 };

function mapPicture() {
  const picture = s("svg", { xmlns: "http://www.w3.org/2000/svg" });
  const grids = [...document.querySelectorAll(".map .grid")];
  let [y, width] = [LINE, 480];
  picture.append(label(`${shownMap ? shownMap.label : "What heads do"}${shownKept ? `, ${shownKept.label}` : ""}`, MARGIN, y, 600));
  for (const grid of grids) {
    const title = grid.querySelector("figcaption");
    if (title) picture.append(label(title.firstChild.textContent.trim(), MARGIN, (y += LINE + 6), 600));
    const boxes = [...grid.querySelectorAll(".cell")];
    const columns = 1 + Math.max(...boxes.map((cell) => Number(cell.dataset.column)));
    const rows = [...new Set(boxes.map((cell) => cell.dataset.row))];
    y += LINE;
    for (let i = 0; i < columns; i++) picture.append(centred(String(i), leftOf(i) + SIDE.width / 2, y));
    rows.forEach((row, i) => picture.append(centred(row, MARGIN + SIDE.axis / 2 - 4, y + 8 + i * (SIDE.height + SIDE.gap) + SIDE.height / 2 + 5)));
    for (const cell of boxes) picture.append(...drawCell(cell, leftOf(Number(cell.dataset.column)), y + 8 + rows.indexOf(cell.dataset.row) * (SIDE.height + SIDE.gap)));
    y += 8 + rows.length * (SIDE.height + SIDE.gap);
    width = Math.max(width, leftOf(columns) + MARGIN);
  }
  return sized(picture, width, addLegend(picture, width, y + 8) + MARGIN);
}

const leftOf = (column) => MARGIN + SIDE.axis + column * (SIDE.width + SIDE.gap);

function centred(text, x, y, weight = 400, ink = null) {
  const node = label(text, x, y, weight);
  node.style.textAnchor = "middle";
  if (ink) node.style.fill = ink;
  return node;
}

function drawCell(cell, x, y) {
  const look = getComputedStyle(cell);
  const missing = cell.classList.contains("missing");
  const box = s("rect", { x, y, width: SIDE.width, height: SIDE.height, rx: 2, style: `fill:${missing ? "none" : look.backgroundColor};stroke:${look.color};stroke-width:${cell.matches(".role, .sure") ? 2 : missing ? 0.6 : 0.15}${missing ? ";stroke-dasharray:3 3" : ""}` });
  const dot = cell.classList.contains("matters") ? [s("circle", { cx: x + SIDE.width - 7, cy: y + 7, r: 4, style: `fill:${getComputedStyle(document.body).color}` })] : [];
  const gone = cell.classList.contains("gone") ? [s("path", { d: `M${x} ${y + SIDE.height}L${x + SIDE.width} ${y}`, style: `stroke:${look.color};stroke-width:1.5` })] : [];
  const text = [...cell.childNodes].map((node) => node.textContent).join(" ");
  return [box, centred(text, x + SIDE.width / 2, y + SIDE.height / 2 + 5, Number(look.fontWeight), look.color), ...gone, ...dot];
}

/** The legend below the map; returns where it ends. */
function addLegend(picture, width, top) {
  const items = shownMap
    ? [[null, "", `${shownMap.low_text} to ${shownMap.high_text}${shownMap.about ? `: ${shownMap.about}` : ""}`]]
    : [...document.querySelectorAll(".chip")].map((chip) => {
      const sample = chip.querySelector(".swatch, .sample");
      return [sample, sample.classList.contains("matters") ? "●" : sample.textContent, chip.textContent.replace(sample.textContent, "").replace(/\s+/g, " ").trim()];
    });
  let [x, y] = [MARGIN, top];
  for (const [sample, sign, text] of items) {
    const wide = (sample ? 30 : 0) + 8.2 * text.length + 18;
    if (x > MARGIN && x + wide > width) [x, y] = [MARGIN, y + 28];
    if (sample) {
      const look = getComputedStyle(sample);
      picture.append(s("rect", { x, y, width: 24, height: 22, rx: 2, style: `fill:${look.backgroundColor};stroke:${look.color};stroke-width:0.3` }), centred(sign, x + 12, y + 16, 600, look.color));
    }
    picture.append(label(text, x + (sample ? 30 : 0), y + 16));
    x += wide;
  }
  return y + 28;
}

/** What the map shows now, as rows for CSV. */
function mapRows() {
  if (shownMap) return [["head", shownMap.label], ...data.heads.map((head, i) => [head, shownMap.values[i]])];
  const row = (cell) => [cell.dataset.head, cell.dataset.verdict, data.kinds[cell.dataset.kind]?.label ?? "", data.cards[cell.dataset.head].findings[0]?.text ?? "", cell.dataset.matters];
  return [["head", "verdict", "leads", "in words", "matters"], ...cells.map(row)];
}

document.querySelector(".map .bar").append(getters(
  "Map",
  ["SVG", () => saveSvg(mapPicture(), shownMap?.label ?? "heads")],
  ["PNG", () => savePng(mapPicture(), shownMap?.label ?? "heads")],
  ["CSV", () => download(fileName(shownMap?.label ?? "heads", "csv"), new Blob(["\ufeff", csv(mapRows())], { type: "text/csv" }))],
));
