// Reader actions: press a cell, chip or relation; choose a number; follow #enc.3.7.

// In the frame of a notebook, links and addresses are those of the notebook; only the part after # is the page's own.
const inFrame = location.protocol === "about:";
if (inFrame) {
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (!link || event.defaultPrevented) return;
    event.preventDefault();
    location.hash = link.getAttribute("href").slice(1);
  });
}

function closeCard() {
  const head = openHead();
  if (inFrame) location.hash = "";
  else history.pushState(null, "", location.pathname + location.search);
  showCard();
  cells.find((cell) => cell.dataset.head === head)?.focus();
}

function showOnMap(key) {
  colourBy(key);
  document.querySelector(".map").scrollIntoView();
}

function revealPanel() {
  if (matchMedia("(max-width: 959px)").matches) document.getElementById("panel").scrollIntoView();
}

for (const cell of cells) {
  cell.addEventListener("click", () => {
    if (openHead() === cell.dataset.head) revealPanel();
    else location.hash = cell.dataset.head;
  });
  for (const type of ["mouseenter", "focus"]) cell.addEventListener(type, () => showTip(cell));
  for (const type of ["mouseleave", "blur"]) cell.addEventListener(type, () => { tip.hidden = true; });
  cell.addEventListener("keydown", moveFocus);
}
for (const group of document.querySelectorAll(".parts")) rove(group, group.querySelector(".cell"));
for (const chip of document.querySelectorAll(".chip")) {
  chip.addEventListener("click", () => highlight(chip.ariaPressed === "true" ? null : chip.dataset.filter));
}
for (const button of document.querySelectorAll(".relation")) {
  button.addEventListener("click", () => showOnMap(button.dataset.map));
}
for (const link of document.querySelectorAll(".contents > ul a")) {
  link.addEventListener("click", (event) => {  // the part after # names the open card, so it stays
    event.preventDefault();
    document.getElementById(link.hash.slice(1)).scrollIntoView();
  });
}
const contents = document.querySelector(".contents");
new ResizeObserver(() => document.documentElement.style.setProperty("--contents", `${contents.offsetHeight}px`)).observe(contents);
const allHeads = document.querySelector(".sortable");
allHeads.closest("details").addEventListener("toggle", () => { if (!allHeads.tBodies[0].rows.length) fillHeads(allHeads); });
offerDownloads(document.querySelector(".story"));

document.getElementById("colour-by").addEventListener("change", (event) => colourBy(event.target.value));
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  tip.hidden = true;
  if (openHead()) closeCard();
});
addEventListener("hashchange", () => { showCard(); if (openHead()) revealPanel(); });
addEventListener("popstate", showCard);
for (const query of ["print", "(prefers-color-scheme: dark)"]) {
  matchMedia(query).addEventListener("change", () => { if (shownMap) colourBy(shownMap.key); });
}
showCard();
if (openHead()) revealPanel();
