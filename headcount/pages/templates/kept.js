// Before and after: which heads a pruned model keeps, or a budget of the curve.

let shownKept = null;

/** Show which heads a choice keeps, by its key; null means the dense model. */
function showKept(key) {
  shownKept = data.kept.find((choice) => choice.key === key) ?? null;
  for (const button of document.querySelectorAll(".kept-in button")) button.ariaPressed = String(button.dataset.kept === (key ?? ""));
  const about = document.getElementById("kept-about");
  if (about) about.textContent = shownKept ? `${shownKept.about} Pruned heads are struck out; the legend counts those that are kept.` : "";
  markGone();
  countKept();
}

/** Strikes out the heads that are not kept; the grid calls it whenever it colours its cells. */
function markGone() {
  const kept = shownKept && new Set(shownKept.kept);
  for (const cell of cells) {
    const gone = kept !== null && !kept.has(cell.dataset.head);
    cell.classList.toggle("gone", gone);
    cell.ariaLabel = cell.ariaLabel.replace(/; pruned$/, "") + (gone ? "; pruned" : "");
  }
}

function countKept() {
  for (const chip of document.querySelectorAll(".chip")) {
    const [name, value] = chip.dataset.filter.split(":");
    const mine = cells.filter((cell) => cell.dataset[name] === value);
    const number = chip.querySelector("b");
    number.textContent = shownKept ? `${mine.filter((cell) => !cell.classList.contains("gone")).length} of ${mine.length}` : mine.length.toLocaleString("en");
  }
}

for (const button of document.querySelectorAll(".kept-in button")) {
  button.addEventListener("click", () => showKept(button.dataset.kept || null));
}
