// The page of a prediction: maps framed by an effect of their heads, or by what they read of a word.

const effectsBox = document.getElementById("effects");

function showEffect(key) {
  const effect = data.explained.effects.find((each) => each.key === key);
  frameMaps(effect.values);
  const option = (each) => h("option", { value: each.key, selected: each.key === key }, each.label);
  const choice = h("select", { onchange: (event) => showEffect(event.target.value) }, ...data.explained.effects.map(option));
  effectsBox.replaceChildren(
    h("h2", {}, "Heads that raise or lower what is predicted"),
    h("label", { class: "colour-by" }, "measured by ", choice), largestHeads(effect.values),
    h("p", { class: "hint" }, `Nats: ${effect.about}. Blue heads, with blue frames, raise the prediction; orange ones lower it. Other measures give other numbers.`),
    ...readers(),
  );
}

/** Buttons of the words that can be read where the prediction is made. */
function readers() {
  const { site: short, query } = data.explained;
  if (short === null) return [];
  const site = looking.attention.sites.find((each) => each.short === short);
  const button = (word, key) => h("button", { type: "button", class: "chip", onclick: () => showReaders(site, query, key) }, word);
  return [h("h2", {}, "Which heads read a word where the prediction is made?"), h("p", { class: "chips" }, ...site.keys.map(button))];
}

function showReaders(site, query, key) {
  const heads = [...looking.canvases.keys()].filter((head) => siteOf(head) === site);
  const weights = Object.fromEntries(heads.map((head) => [head, weightsOf(head)[query * site.keys.length + key] / 255]));
  frameMaps(weights);
  effectsBox.replaceChildren(
    h("h2", {}, `Heads that look at “${site.keys[key]}”`), largestHeads(weights, (weight) => weight.toFixed(2)),
    h("p", { class: "hint" }, "Their weights on it where the prediction is made."),
    h("p", {}, h("button", { type: "button", class: "chip", onclick: () => showEffect(data.explained.effects[0].key) }, "Back to effects")),
    ...readers(),
  );
}

const LOOKS = 3;  // words that a head looks at most

/** Where the head in the panel looks when the prediction is made. */
function showLooks(head) {
  const site = siteOf(head);
  const { site: short, query } = data.explained;
  const row = site.short === short ? [...weightsOf(head).slice(query * site.keys.length, (query + 1) * site.keys.length)] : [];
  const most = row.map((weight, k) => [weight / 255, site.keys[k]]).sort((a, b) => b[0] - a[0]).slice(0, LOOKS);
  const words = most.map(([weight, word]) => h("code", {}, `${word} ${weight.toFixed(2)}`));
  document.getElementById("head-looks").replaceChildren(...words.length ? ["Where the prediction is made it looks at ", ...words] : []);
}

/** Why the head in the panel looks there, if that was split. */
function showReason(head) {
  document.getElementById("head-reason").textContent = data.explained.reasons[head] ?? "";
}

document.getElementById("head-title").after(h("p", { id: "head-looks" }), h("p", { id: "head-reason" }));
for (const show of [showLooks, showReason]) {
  document.addEventListener("head", (event) => show(event.detail));
  show(looking.head);
}

/** The tokens that the head in the panel promotes and demotes most. */
function showWritten(head) {
  const [up, down] = data.explained.writes[head] ?? [[], []];
  const side = (name, tokens) => [h("dt", {}, name), h("dd", {}, ...tokens.map((token) => h("code", {}, token)))];
  const words = up.length + down.length ? [...side("promotes", up), ...side("demotes", down)] : [];
  document.getElementById("head-writes").replaceChildren(...words);
}

if (data.explained.writing) {
  document.getElementById("head-reason").after(h("dl", { id: "head-writes" }));
  document.getElementById("head-strongest").after(h("p", { class: "hint" }, data.explained.writing));
  document.addEventListener("head", (event) => showWritten(event.detail));
  showWritten(looking.head);
}

effectsBox.hidden = false;
showEffect(data.explained.effects[0].key);
