// The live page: asks for every change of the text or the gates; one question runs at a time, the last one counts.

const token = new URLSearchParams(location.search).get("token") ?? "";
const field = (name) => document.getElementById(name);
const gates = new Map();  // gates other than 1
let running = false;
let again = false;
let shape = "";
let image = null;  // the picture in front of the text, as an address of its bytes

/** The server's answer to a question about the text; throws its sentence. */
async function answerOf(name, more) {
  const asked = { image, text: field("text").value, second: field("second")?.value ?? null, gates: Object.fromEntries(gates), ...more };
  let response = null;
  try {
    response = await fetch(name, { method: "POST", headers: { Authorization: `Bearer ${token}`, [data.own_header]: "1", "Content-Type": "application/json" }, body: JSON.stringify(asked) });
  } catch {
    throw new Error("The server does not answer. Is headcount serve still running?");
  }
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

async function ask() {
  if (running) { again = true; return; }
  running = true;
  document.body.classList.add("waiting");
  const started = performance.now();
  try {
    showAnswer(await answerOf("look"), (performance.now() - started) / 1000);
  } catch (error) {
    complain(error.message);
  }
  running = false;
  document.body.classList.remove("waiting");
  if (again) { again = false; ask(); }
}

function complain(sentence) {
  field("problem").textContent = sentence;
  field("problem").hidden = false;
  field("state").textContent = "";
}

function showAnswer(answer, seconds) {
  field("problem").hidden = true;
  looking.attention = answer.attention;
  const now = JSON.stringify(answer.attention.sites.map((site) => [site.short, Object.values(site.maps).map((maps) => maps.length)]));
  if (now !== shape) {
    shape = now;
    field("grids").replaceChildren(...buildGrids(sliderBelow));
    for (const [index, caption] of [...document.querySelectorAll("#grids figcaption")].entries()) caption.append(siteButton(answer.attention.sites[index].short));
    showGates();
  }
  paintGrids();
  chooseHead(looking.canvases.has(looking.head) ? looking.head : answer.head);
  showPredictions(answer.predictions);
  explainFirst(answer.predictions);
  field("state").textContent = `Answered in ${seconds.toFixed(2)} s.`;
}

// Gates

function setGates(changes) {
  for (const [head, gate] of changes) {
    if (gate === 1) gates.delete(head);
    else gates.set(head, gate);
  }
  showGates();
  ask();
}

const gateOf = (head) => gates.get(head) ?? 1;
const headsOf = (site) => [...looking.canvases.keys()].filter((head) => head.startsWith(`${site}.`));
const say = (gate) => String(Number(gate.toFixed(2)));

function showGates() {
  for (const [head, canvas] of looking.canvases) {
    const [box, gate] = [canvas.closest(".thumb-box"), gateOf(head)];
    box.style.setProperty("--gate", gate);
    box.classList.toggle("off", gate === 0);
    box.classList.toggle("weaker", gate < 1);
    box.classList.toggle("stronger", gate > 1);
    box.querySelector(".thumb").setAttribute("aria-label", `head ${head}${gate === 1 ? "" : `, gate ${say(gate)}`}`);
    box.querySelector(".below").value = gate;
  }
  for (const button of document.querySelectorAll(".site-off")) button.textContent = isOff(button.dataset.site) ? "All on" : "All off";
  const off = [...gates.values()].filter((gate) => gate === 0).length;
  const parts = [off && `${off} off`, gates.size - off && `${gates.size - off} at other gates`].filter(Boolean);
  field("gates-say").textContent = parts.length ? `${parts.join(", ")} of ${looking.canvases.size} heads` : "";
  field("reset").disabled = gates.size === 0;
  showGate();
}

function showGate(head = looking.head) {
  if (!head) return;
  const gate = gateOf(head);
  field("gate").value = gate;
  field("gate-value").textContent = say(gate);
  field("head-off").textContent = gate === 0 ? "Switch on" : "Switch off";
}

const isOff = (site) => headsOf(site).every((head) => gateOf(head) === 0);

function sliderBelow(head) {
  const slider = h("input", { type: "range", class: "below", min: 0, max: data.largest, step: 0.05, value: 1, tabindex: -1, "aria-label": `gate of ${head}` });
  slider.addEventListener("input", () => setGates([[head, Number(slider.value)]]));
  return slider;
}

function siteButton(site) {
  const button = h("button", { type: "button", class: "site-off", "data-site": site }, "All off");
  button.addEventListener("click", () => {
    const gate = isOff(site) ? 1 : 0;
    setGates(headsOf(site).map((head) => [head, gate]));
  });
  return button;
}

// Which heads raise a prediction, against a rival

const explained = { target: null, against: null, text: null };

async function explain(target, against) {
  if (target === null) [target, against] = [against, null];
  Object.assign(explained, { target, against, text: field("text").value });
  keepInAddress();
  markExplained();
  showEffects(null);
  try {
    const answer = await answerOf("effects", { target, against });
    if (explained.text === field("text").value && target === explained.target && against === explained.against) showEffects(answer);
  } catch (error) {
    field("effects").hidden = true;
    complain(error.message);
  }
}

function showEffects(answer) {
  const box = field("effects");
  box.hidden = explained.target === null;
  frameMaps(answer?.effects ?? null);
  const of = `“${explained.target?.trim()}”${explained.against === null ? "" : ` rather than “${explained.against.trim()}”`}`;
  if (!answer) { box.replaceChildren(h("p", { class: "hint" }, `Which heads say ${of}? Each is replaced once.`)); return; }
  box.replaceChildren(
    h("h2", {}, `Heads that say ${of}`), largestHeads(answer.effects),
    h("p", { class: "hint" }, `Of ${digits(answer.value)} nats, ${answer.about}, each head alone; negative numbers are won. Blue heads, with blue frames, raise the prediction; orange ones lower it.`),
  );
  if (!looking.chosen) chooseHead(answer.head);
}

function markExplained() {
  for (const button of document.querySelectorAll("[data-role]")) button.setAttribute("aria-pressed", String(button.dataset.text === explained[button.dataset.role]));
}

/** Buttons that explain an option, or take it as the rival. */
function explainers(target) {
  const press = { target: () => explain(target, explained.against === target ? null : explained.against), against: () => explain(explained.target, explained.against === target ? null : target) };
  const button = (role, sign, says) => h("button", { type: "button", class: "explain", "data-role": role, "data-text": target, "aria-pressed": "false", title: says, "aria-label": says, onclick: press[role] }, sign);
  return [button("target", "why", `Which heads say “${target}”?`), button("against", "rival", `Take “${target}” as the rival`)];
}

/** The first text of a page is explained at once, by default its likeliest option against the next. */
function explainFirst(predictions) {
  const rows = predictions.length === 1 ? (predictions[0].rows ?? []).filter((row) => row.target !== null) : [];
  if (explained.text === null && explained.target !== null) explain(explained.target, explained.against);
  else if (explained.text === null && rows.length > 1) explain(rows[0].target, rows[1].target);
  else if (explained.text !== field("text").value) { explained.target = explained.against = null; showEffects(null); }
  markExplained();
}

// Predictions

function showPredictions(predictions) {
  const changed = gates.size > 0;
  const makers = { text: textPrediction, number: numberPrediction, choices: choicesPrediction };
  const parts = predictions.map((each) => h("div", { class: "prediction" }, h("h2", {}, each.title), ...makers[each.kind](each, changed)));
  if (!parts.length && data.hint) parts.push(h("p", { class: "hint" }, data.hint));
  field("predictions").replaceChildren(...parts);
}

function textPrediction({ dense, gated }, changed) {
  const shown = (text) => (text === "" ? [h("i", {}, "nothing")] : [text]);
  if (!changed) return [h("p", {}, ...shown(dense)), dense && explainers(dense)[0]];
  if (dense === gated) return [h("p", {}, h("small", {}, "all heads, and with these gates"), ...shown(dense))];
  return [h("p", {}, h("small", {}, "all heads"), ...shown(dense)), h("p", {}, h("small", {}, "with these gates"), ...(gated === "" ? shown(gated) : marked(dense, gated)))];
}

/** The words of a text, marked if they are not part of a longest common subsequence. */
function marked(before, after) {
  const [a, b] = [before.split(" "), after.split(" ")];
  const longest = Array.from({ length: a.length + 1 }, () => new Array(b.length + 1).fill(0));
  for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--) longest[i][j] = a[i] === b[j] ? 1 + longest[i + 1][j + 1] : Math.max(longest[i + 1][j], longest[i][j + 1]);
  const found = [];
  for (let i = 0, j = 0; j < b.length;) {
    if (i < a.length && a[i] === b[j]) { found.push(b[j], " "); i++; j++; }
    else if (i < a.length && longest[i + 1][j] >= longest[i][j + 1]) i++;
    else { found.push(h("mark", {}, b[j]), " "); j++; }
  }
  return found;
}

const digits = (value) => value.toFixed(3).replace("-", "−");

function numberPrediction({ dense, gated }, changed) {
  return [h("p", {}, changed ? `${digits(dense)} → ${digits(gated)}` : digits(dense), changed && h("small", {}, "all heads → with these gates"))];
}

function choicesPrediction({ rows }, changed) {
  const titles = ["", "", "all heads", ...(changed ? ["these gates"] : [])];
  const row = (each) => h(
    "tr", {},
    h("th", { scope: "row", title: each.text }, each.text),
    h("td", { class: "bars", "aria-hidden": "true" }, track(each.dense), changed && track(each.gated, "norm")),
    h("td", { class: "number" }, `${(100 * each.dense).toFixed(1)} %`),
    changed && h("td", { class: "number" }, `${(100 * each.gated).toFixed(1)} %`),
    h("td", { class: "explainers" }, ...(each.target === null ? [] : explainers(each.target))),
  );
  return [h("table", {}, h("thead", {}, h("tr", {}, ...titles.map((title, i) => h(i < 2 ? "td" : "th", { scope: i < 2 ? false : "col", class: i < 2 ? "" : "number" }, title)))), h("tbody", {}, ...rows.map(row)))];
}

function showFindings(head) {
  const found = data.findings[head] ?? [];
  field("head-findings").replaceChildren(...found.map(([verdict, text]) => h("li", { class: verdict }, h("b", {}, verdict), h("span", {}, text))));
}

// The part of the address after # holds the text, the gates, the chosen head and what is explained

function keepInAddress() {
  const set = [...gates].map(([head, gate]) => `${head}:${say(gate)}`).join(",");
  const kept = Object.entries({ text: field("text").value, second: field("second")?.value, gates: set, head: looking.head, target: explained.target, against: explained.against });
  const address = `#${new URLSearchParams(kept.filter(([, value]) => value))}`;
  if (address !== location.hash) history.replaceState(null, "", address);
}

function readAddress() {
  const kept = new URLSearchParams(location.hash.slice(1));
  for (const name of ["text", "second"]) if (kept.has(name) && field(name)) field(name).value = kept.get(name);
  for (const pair of (kept.get("gates") ?? "").split(",")) {
    const [head, gate] = pair.split(":");
    if (gate && Number(gate) >= 0) gates.set(head, Number(gate));  // the server refuses what is no head
  }
  looking.head = kept.get("head");
  looking.chosen = kept.has("head");
  Object.assign(explained, { target: kept.get("target"), against: kept.get("against"), text: null });
}

/** Read the chosen picture, and ask. */
function readPicture(file) {
  image = null;
  explained.text = explained.target = explained.against = null;
  if (!file) { ask(); return; }
  if (file.size > data.max_picture) { complain(`Expected a picture of at most ${Math.floor(data.max_picture / 1e6)} MB, got ${(file.size / 1e6).toFixed(1)} MB. Make it smaller.`); return; }
  const reader = new FileReader();
  reader.addEventListener("load", () => { image = reader.result; ask(); });
  reader.addEventListener("error", () => complain("Expected a file that can be read, got another. Choose the picture again."));
  reader.readAsDataURL(file);
}

// What the reader does

field("picture")?.addEventListener("change", (event) => readPicture(event.target.files[0]));

let typing = 0;
for (const name of ["text", "second"]) {
  field(name)?.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(ask, 250);
  });
}
document.addEventListener("head", (event) => { showGate(event.detail); showFindings(event.detail); if (event.detail === looking.head) keepInAddress(); });
field("gate").addEventListener("input", (event) => setGates([[looking.head, Number(event.target.value)]]));
field("head-off").addEventListener("click", () => setGates([[looking.head, gateOf(looking.head) === 0 ? 1 : 0]]));
field("sliders").addEventListener("click", (event) => {
  const on = field("grids").classList.toggle("with-sliders");
  event.target.setAttribute("aria-pressed", String(on));
  for (const slider of document.querySelectorAll(".below")) slider.tabIndex = on ? 0 : -1;
});
field("plan")?.addEventListener("click", () => {
  gates.clear();
  setGates(data.pruned.map((head) => [head, 0]));
});
field("reset").addEventListener("click", () => {
  gates.clear();
  setGates([]);
});
addEventListener("hashchange", () => { gates.clear(); readAddress(); setGates([]); });
readAddress();
ask();
