// One example: queries on the left, keys on the right; a line is as strong as the weight.

const ROW = 21;

/** Where words stand in a drawing of a width in pixels, so that text keeps its size. */
function columnsOf(width) {
  const side = Math.round(0.375 * width);
  return { left: side, right: width - side, width, longest: Math.floor((side - 4) / 7.6) };
}

/** One example as an SVG element, drawn for a width in pixels. */
function drawSentence(example, width = 470) {
  const columns = columnsOf(Math.max(300, Math.min(560, Math.floor(width))));
  const keys = example.keys ?? example.queries;
  const height = ROW * Math.max(example.queries.length, keys.length) + 26;
  const arcs = pairs(example.arcs, 2);
  const isArc = new Set(arcs.map(([query, key]) => `${query} ${key}`));
  const lines = pairs(example.lines, 3)
    .map(([query, key, weight]) => line(columns, query, key, weight / 255, isArc.has(`${query} ${key}`)))
    .sort((a, b) => a.classList.contains("arc") - b.classList.contains("arc"));
  const words = [
    ...example.queries.map((text, i) => word(columns, text, i, "query", arcs.some(([query]) => query === i))),
    ...keys.map((text, i) => word(columns, text, i, "key", arcs.some(([, key]) => key === i))),
  ];
  const drawing = s(
    "svg",
    { class: "sentence", viewBox: `0 0 ${columns.width} ${height}`, role: "img", "aria-label": says(example, keys, arcs) },
    s("text", { class: "tick", x: columns.left, y: 14, "text-anchor": "end" }, "looks from"),
    s("text", { class: "tick", x: columns.right, y: 14 }, "to"),
    ...lines, ...words,
  );
  watch(drawing, words, lines);
  return drawing;
}

function pairs(flat, size) {
  return Array.from({ length: flat.length / size }, (_, i) => flat.slice(size * i, size * (i + 1)));
}

const rowMiddle = (index) => 22 + ROW * index + ROW / 2;

function line(columns, query, key, weight, isArc) {
  const [x0, x1, y0, y1] = [columns.left + 6, columns.right - 6, rowMiddle(query), rowMiddle(key)];
  const bend = (x0 + x1) / 2;
  const missed = isArc && weight < 0.05;
  return s(
    "path",
    {
      class: missed ? "miss" : `line${isArc ? " arc" : ""}`, "data-query": query, "data-key": key,
      d: `M${x0} ${y0}C${bend} ${y0} ${bend} ${y1} ${x1} ${y1}`,
      ...(missed ? {} : { opacity: (isArc ? 0.55 + 0.45 * weight : 0.08 + 0.62 * weight).toFixed(2), "stroke-width": (0.7 + 2.5 * weight).toFixed(2) }),
    },
    s("title", {}, `weight ${weight.toFixed(2)}`),
  );
}

function word(columns, text, index, side, isArc) {
  const short = text.length > columns.longest ? `${text.slice(0, columns.longest - 1)}…` : text;
  const left = side === "query";
  return s(
    "text",
    {
      class: `word${isArc ? " arc" : ""}`, "data-side": side, "data-index": index, y: rowMiddle(index) + 5,
      x: left ? columns.left : columns.right, "text-anchor": left ? "end" : "start",
    },
    short,
    short === text ? null : s("title", {}, text),
  );
}

// Hovering over a word shows only its own lines.
function watch(drawing, words, lines) {
  const clear = () => drawing.querySelectorAll(".away").forEach((node) => node.classList.remove("away"));
  for (const node of words) {
    node.addEventListener("mouseenter", () => {
      const { side, index } = node.dataset;
      const others = new Set([`${side} ${index}`]);
      for (const path of lines) {
        const mine = path.dataset[side] === index;
        path.classList.toggle("away", !mine);
        if (mine) others.add(side === "query" ? `key ${path.dataset.key}` : `query ${path.dataset.query}`);
      }
      for (const other of words) other.classList.toggle("away", !others.has(`${other.dataset.side} ${other.dataset.index}`));
    });
    node.addEventListener("mouseleave", clear);
  }
}

function says(example, keys, arcs) {
  const spoken = arcs.map(([query, key]) => `${example.queries[query]} to ${keys[key]}`).join(", ");
  return `Attention between words. ${example.caption}${spoken ? `. Marked: ${spoken}` : ""}`;
}
