// The search field: heads by name or by what they do, numbers for the map, sections.

const find = document.getElementById("find");
const found = document.getElementById("found");
const MOST_FOUND = 9;
let texts = null;
let chosen = -1;

/** What every head does, each with all words that name it, built when it is needed. */
function headTexts() {
  texts ??= data.heads.map((head) => {
    const { findings, profile } = data.cards[head];
    const found = findings.map((one) => [`${one.verdict}: ${one.text}`, data.kinds[one.kind]?.words ?? ""]);
    const more = (profile?.lines ?? []).filter((line) => line.verdict !== "none").map((line) => [`${line.verdict}: ${line.label}`, ""]);
    return [...found, ...more].map(([text, words]) => ({ text, words: `${text} ${words}`.toLowerCase() }));
  });
  return texts;
}

/** Heads of a query, those named by it first; each with what it does that fits. L2H9 names heads at all sites. */
function headsOf(query) {
  const place = query.match(/^l(\d+)h(\d+)$/);
  const isNamed = (head) => place ? head.endsWith(`.${place[1]}.${place[2]}`) : head.startsWith(query);
  const named = [];
  const doing = [];
  headTexts().forEach((lines, i) => {
    const at = lines.findIndex((line) => line.words.includes(query));
    if (isNamed(data.heads[i])) named.push([data.heads[i], lines[0]?.text ?? data.nothing]);
    else if (at >= 0) doing.push([data.heads[i], lines[at].text, at]);
  });
  const exact = (pair) => (pair[0] === query ? 0 : 1);
  return [...named.sort((a, b) => exact(a) - exact(b)), ...doing.sort((a, b) => Math.min(1, a[2]) - Math.min(1, b[2]))];  // those that it leads first
}

function results(query) {
  const heads = headsOf(query);
  const numbers = data.maps.filter((map) => map.words.includes(query));
  const links = [...document.querySelectorAll(".contents > ul a")].filter((link) => link.textContent.toLowerCase().includes(query));
  return {
    heads,
    rows: [
      ...heads.slice(0, MOST_FOUND).map(([head, does]) => ({ name: head, text: does, go: () => { location.hash = head; } })),
      ...numbers.slice(0, 4).map((map) => ({ name: "map", text: map.label, go: () => showOnMap(map.key) })),
      ...links.map((link) => ({ name: "section", text: link.textContent, go: () => link.click() })),
    ],
  };
}

function search() {
  const query = find.value.trim().toLowerCase();
  if (!query) return stopSearch();
  const { heads, rows } = results(query);
  chosen = rows.length ? 0 : -1;
  const options = rows.map((row, i) => h("li", { role: "option", id: `found-${i}`, "aria-selected": String(i === chosen), onmousedown: (event) => { event.preventDefault(); take(row); } }, h("b", {}, row.name), row.text));
  const note = (says, more) => h("li", { class: "none", ...more }, says);
  const still = { role: "option", "aria-disabled": "true" };
  const more = heads.length > MOST_FOUND ? [note(`${heads.length} heads in all, marked on the map`, { role: "presentation" })] : [];
  const absent = heads.length ? [] : data.absent.filter(([words]) => words.includes(query)).map(([, says]) => note(says, still));
  found.replaceChildren(...absent, ...(rows.length || absent.length ? [...options, ...more] : [note(`Nothing found. Try a head (${data.heads[0]}), a word (subject) or a relation (nsubj).`, still)]));
  found.hidden = false;
  found.rows = rows;
  find.ariaExpanded = "true";
  point();
  dimOthers(heads.length ? new Set(heads.map(([head]) => head)) : null);
}

function point() {
  [...found.querySelectorAll("[id]")].forEach((option, i) => { option.ariaSelected = String(i === chosen); });
  if (chosen < 0) return find.removeAttribute("aria-activedescendant");
  find.setAttribute("aria-activedescendant", `found-${chosen}`);
  document.getElementById(`found-${chosen}`).scrollIntoView({ block: "nearest" });
}

function take(row) {
  find.value = "";
  stopSearch();
  row.go();
}

function stopSearch() {
  found.hidden = true;
  find.ariaExpanded = "false";
  find.removeAttribute("aria-activedescendant");
  highlight(shownMap ? null : shownFilter);
}

find.addEventListener("input", search);
find.addEventListener("blur", stopSearch);
find.addEventListener("focus", () => { if (find.value) search(); });
find.addEventListener("keydown", (event) => {
  if (event.key === "Escape") { find.value = ""; stopSearch(); event.stopPropagation(); }
  if (found.hidden) return;
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && found.rows.length) {
    event.preventDefault();
    chosen = (chosen + step + found.rows.length) % found.rows.length;
    point();
  }
  if (event.key === "Enter" && chosen >= 0) { event.preventDefault(); take(found.rows[chosen]); }
});
