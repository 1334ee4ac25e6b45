// Two maps side by side: a press shows what a head does in both runs.

const pairCard = document.getElementById("pair");
const cells = [...document.querySelectorAll(".cell")];

function showPair() {
  const head = location.hash.slice(1);
  const pair = Object.hasOwn(data.pairs, head) ? data.pairs[head] : null;
  pairCard.hidden = pair === null;
  for (const cell of cells) cell.classList.toggle("both", pair !== null && cell.dataset.head === head);
  if (pair === null) return pairCard.replaceChildren();
  const side = (name, i) => h(
    "div", {}, h("h3", {}, name),
    h("ul", {}, ...(pair.does[i].length ? pair.does[i] : ["no role or tendency"]).map((text) => h("li", {}, text))),
    pair.without[i] ? h("p", {}, pair.without[i]) : null,
  );
  pairCard.replaceChildren(h("h2", {}, pair.head), h("div", { class: "two" }, ...data.names.map(side)));
}

for (const cell of cells) {
  cell.addEventListener("keydown", moveFocus);
  if (!Object.hasOwn(data.pairs, cell.dataset.head)) continue;
  cell.title = cell.ariaLabel;
  cell.addEventListener("click", () => { location.hash = cell.dataset.head; });
}
for (const group of document.querySelectorAll(".parts")) rove(group, group.querySelector("[data-row]"));
document.getElementById("only-differ")?.addEventListener("change", (event) => {
  for (const cell of cells) cell.classList.toggle("same", event.target.checked && data.pairs[cell.dataset.head].same);
});
for (const link of document.querySelectorAll("section:not(#every-head) a.head, .drawn a")) {
  link.addEventListener("click", () => pairCard.scrollIntoView({ block: "center" }));
}
offerDownloads(document.querySelector("main"));
addEventListener("hashchange", showPair);
showPair();
