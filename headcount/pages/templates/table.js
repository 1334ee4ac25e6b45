// Pressing a column title sorts the table by it; dashes (not measured) always come last.

function sortable(table) {
  const titles = [...table.tHead.rows[0].cells];
  titles.forEach((title, column) => {
    title.querySelector("button").addEventListener("click", () => {
      // The first press sorts numbers from large to small and text from a to z.
      const first = title.classList.contains("number") ? "descending" : "ascending";
      const other = first === "ascending" ? "descending" : "ascending";
      const order = title.ariaSort === first ? other : first;
      titles.forEach((each) => { each.ariaSort = each === title ? order : "none"; });
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => compare(a.cells[column], b.cells[column], order));
      table.tBodies[0].append(...rows);
    });
  });
}

/** Fills the table of all heads, which the page of a large model has without rows, from the data. */
function fillHeads(table) {
  const columns = data.maps.slice(0, table.tHead.rows[0].cells.length - 2);
  const row = (head, i) => h(
    "tr", {},
    h("th", { scope: "row" }, h("a", { class: "head", href: `#${head}` }, head)), h("td", {}, data.cards[head].roles.join(", ")),
    ...columns.map((map) => h("td", { class: "number" }, map.texts[i])),
  );
  table.tBodies[0].append(...data.heads.map(row));
}

function compare(a, b, order) {
  const [x, y] = [a, b].map((cell) => cell.textContent.trim());
  if (x === NO_VALUE || y === NO_VALUE) return (x === NO_VALUE) - (y === NO_VALUE);
  const sign = order === "ascending" ? 1 : -1;
  if (!a.classList.contains("number")) return sign * x.localeCompare(y, "en", { numeric: true });
  return sign * (asNumber(x) - asNumber(y));
}

function asNumber(text) {
  return parseFloat(text.replace("−", "-").replace(/[,+<]/g, ""));
}

for (const table of document.querySelectorAll(".sortable")) sortable(table);
