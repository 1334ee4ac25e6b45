// A search over the heads of all runs: every word must be in what a head is called or does.

const MOST = 100;
const field = (id) => document.getElementById(id);

/** Every head with all words that find it: those with a role first, of these the most telling kinds. */
const rows = data.models.flatMap((model, run) =>
  model.heads.map((head) => {
    const said = head.findings.map((one) => `${one.verdict} ${one.says} ${data.kinds[one.kind]?.words ?? ""}`);
    const words = [head.head, model.name, model.model_type, ...head.roles, ...said, head.known, head.skill, head.worth];
    const { kind, verdict } = head.findings[0] ?? { kind: "", verdict: "" };
    return { model, run, head, verdict, starts: data.starts[kind] ?? 0, leads: (said[0] ?? "").toLowerCase(), words: words.join(" ").toLowerCase() };
  }),
);
const order = { role: 0, tendency: 1, "": 2 };
rows.sort((a, b) => order[a.verdict] - order[b.verdict] || a.starts - b.starts);

function shown({ model, head }) {
  const [first, ...others] = head.findings;
  const rest = others.length ? `${others.length} more ${others.length === 1 ? "trait" : "traits"} on its card` : "";
  const more = [head.known, head.skill, head.worth, rest].filter(Boolean);
  return h(
    "tr", {},
    h("td", {}, h("a", { class: "head", href: `${model.page}#${head.head}` }, head.head)),
    h("td", {}, model.name),
    h("td", { class: "number" }, `${Math.round(100 * head.depth)} %`),
    h("td", {}, first && data.kinds[first.kind] ? swatch(first.kind) : null, first ? `${first.verdict}: ${first.says}` : "neither role nor tendency",
      more.length ? h("span", { class: "more" }, ` · ${more.join(" · ")}`) : null),
  );
}

function search() {
  const words = field("words").value.toLowerCase().split(/\s+/).filter(Boolean);
  const [run, verdict] = [field("model").value, field("verdict").value];
  const [from, to] = [Number(field("from").value) / 100, Number(field("to").value || 100) / 100];
  const found = rows.filter((row) =>
    (run === "" || row.run === Number(run)) && (verdict === "" || row.verdict === verdict) &&
    row.head.depth >= from - 0.005 && row.head.depth <= to + 0.005 && words.every((word) => row.words.includes(word)));
  const leads = (row) => Number(words.every((word) => row.leads.includes(word)));
  found.sort((a, b) => leads(b) - leads(a));
  field("heads").tBodies[0].replaceChildren(...found.slice(0, MOST).map(shown));
  const runs = new Set(found.map((row) => row.run)).size;
  const first = found.length > MOST ? `, the first ${MOST} below` : "";
  field("count").textContent = found.length
    ? `${found.length.toLocaleString("en")} ${found.length === 1 ? "head" : "heads"} of ${runs} ${runs === 1 ? "run" : "runs"}${first}`
    : "No head is found. Try fewer words, or a wider depth.";
}

const form = document.querySelector("form.asked");
form.addEventListener("input", search);
form.addEventListener("submit", (event) => event.preventDefault());
search();
