// Builds the card of one head from its data.

const card = document.getElementById("card");
const leads = document.getElementById("leads");
const PATTERNS = [["#0072B2", "#fff"], ["#E69F00", "#16191d"], ["#CC79A7", "#16191d"], ["#009E73", "#16191d"], ["#999999", "#16191d"]];

function openHead() {
  const head = location.hash.slice(1);
  return Object.hasOwn(data.cards, head) ? head : null;
}

function showCard() {
  const head = openHead();
  const focused = card.contains(document.activeElement) ? document.activeElement : null;
  keepPlace(() => {
    leads.hidden = head !== null;
    card.hidden = head === null;
    document.querySelector(".explore").classList.toggle("open", head !== null);
  });
  markCurrent();
  if (head === null) return card.replaceChildren();
  card.replaceChildren(...cardParts(data.cards[head]));
  offerDownloads(card);
  document.getElementById("panel").scrollTop = 0;
  if (focused) refocus(focused.ariaLabel);
}

// The story is wide without a card and narrow beside one: what the reader looks at keeps its place.
function keepPlace(change) {
  const held = [...document.querySelectorAll(".story section, .story tr, .story figure")].filter((one) => one.getBoundingClientRect().top >= 60)[0];
  const looks = held && held.getBoundingClientRect().top < innerHeight ? held : null;
  const before = looks?.getBoundingClientRect().top;
  change();
  if (looks) scrollBy({ top: looks.getBoundingClientRect().top - before, behavior: "instant" });
}

// The card was rebuilt, so focus the new copy of the pressed button, or the title if it is disabled.
function refocus(label) {
  const button = label && [...card.querySelectorAll("button:enabled")].find((one) => one.ariaLabel === label);
  (button || card.querySelector("h2")).focus({ preventScroll: true });
}

function cardParts(shown) {
  return [
    cardTop(shown),
    h("p", { class: "card-title" }, `${shown.title}, counted from 0`),
    cardFindings(shown),
    shown.does ? h("p", { class: "card-without" }, shown.does) : null,
    shown.without ? h("p", { class: "card-without" }, shown.without) : null,
    shown.known ? h("p", { class: "card-without" }, shown.known) : null,
    shown.fate ? h("p", { class: "card-without" }, shown.fate) : null,
    h("p", { class: "card-line" }, shown.line),
    shown.examples.length ? examplesPart(shown.examples, shown.roles.length ? shown.findings[0]?.kind : null) : null,
    shown.profile ? profilePart(shown.profile) : null,
    shown.skills.length ? scoresPart("Skills", shown.skills) : null,
    shown.worth.length ? scoresPart("What it is worth", shown.worth) : null,
    shown.probe ? probePart(shown.probe) : null,
    shown.related.length ? relatedPart(shown.related) : null,
    h("div", { class: "card-pair" }, shown.offsets.length ? offsetsPart(shown.offsets_title, shown.offsets) : null, sinksPart(shown.sinks)),
    shown.patterns.length ? patternsPart(shown.patterns) : null,
    shown.rare ? part("Rare words", h("p", { class: "rare" }, shown.rare)) : null,
    numbersPart(shown.head, shown.random),
  ].filter(Boolean);
}

function relatedPart(related) {
  const item = ({ head, similarity }) => {
    const finding = data.cards[head].findings[0];
    return h("li", {}, finding ? swatch(finding.kind) : h("span", { class: "swatch none", "aria-hidden": "true" }, "·"), h("span", {}, h("a", { class: "head", href: `#${head}` }, head), ` ${finding ? finding.text : "no role or tendency"}`), h("span", { class: "number", title: "cosine of the two profiles" }, similarity));
  };
  return part("Related heads, by the cosine of their profiles", h("ul", { class: "related" }, ...related.map(item)));
}

function part(title, ...children) {
  return h("div", { class: "card-part" }, h("h3", {}, title), ...children);
}

function cardTop(shown) {
  const index = place.get(shown.head);
  const step = (by, sign, text) => {
    const next = data.heads[index + by];
    return h("button", { type: "button", "aria-label": text, title: text, disabled: !next, onclick: () => { location.hash = next; } }, sign);
  };
  return h(
    "div", { class: "card-head" }, h("h2", { tabindex: "-1" }, shown.head),
    step(-1, "←", "previous head"), step(1, "→", "next head"),
    h("button", { type: "button", "aria-label": "close card", title: "close (Esc)", onclick: closeCard }, "×"),
  );
}

function cardFindings(shown) {
  if (!shown.findings.length) return h("p", { class: "card-roles" }, data.nothingMore[shown.head.split(".")[0]]);
  const items = shown.findings.map((found) => h("li", { class: found.verdict }, swatch(found.kind), h("span", {}, h("b", {}, `${found.verdict}:`), ` ${found.text}`)));
  return h("ul", { class: "card-roles" }, ...items);
}

// Roles are bold, tendencies are named, and what is neither is pale: readable without colour.
function profilePart(profile) {
  const rows = profile.lines.map((line) => h(
    "tr", { class: `trait ${line.verdict}` },
    h("th", { scope: "row", title: line.about }, line.label),
    h("td", {}, track(line.value)), h("td", { title: line.about }, line.strength, h("small", {}, line.interval)),
    h("td", {}, line.verdict === "none" ? "–" : line.verdict, line.p && h("small", {}, `p ${line.p}`)),
  ));
  const titles = ["trait", "bar", "strength, 90 % interval", "verdict, corrected p"].map((title) => h("th", { scope: "col" }, title === "bar" ? h("span", { class: "unseen" }, title) : title));
  const table = h("table", { class: "profile" }, h("thead", {}, h("tr", {}, ...titles)), h("tbody", {}, ...rows));
  const about = "0: explained by chance, position or the best fixed offset; 1: as strong as this corpus allows. Measured on the half of the corpus that chose nothing.";
  return part("Profile", rows.length ? table : null, h("p", { class: "profile-note" }, about, profile.note ? ` ${profile.note}` : ""));
}

function scoresPart(title, scores) {
  const rows = scores.map((score) => h("tr", {}, h("th", { scope: "row", title: score.about }, score.label), h("td", {}, score.text), h("td", {}, score.rank)));
  return part(title, h("table", { class: "worth-list" }, h("tbody", {}, ...rows)));
}

function probePart(probe) {
  const scores = [["from the word", probe.from_dependent, ""], ["from its head", probe.from_head, ""], ["adds", probe.contribution, probe.rank]];
  return scoresPart("Its weights in the attention probe", scores.map(([label, text, rank]) => ({ label, text, rank })));
}

const signed = (offset) => (offset > 0 ? `+${offset}` : String(offset).replace("-", "−"));

function offsetsPart(title, shares) {
  const [width, base, top] = [320, 96, 20];
  const highest = Math.max(...shares, 0.01);
  const best = shares.indexOf(Math.max(...shares));
  const step = width / shares.length;
  const name = (i) => (i === 0 ? "further left" : i === shares.length - 1 ? "further right" : `offset ${signed(i - 11)}`);
  const columns = shares.map((share, i) => {
    const tall = (base - top) * (share / highest);
    return s("rect", { class: `column${i === best ? " top" : ""}`, x: step * i + 1, y: base - tall, width: step - 2, height: Math.max(tall, share > 0 ? 0.8 : 0) }, s("title", {}, `${name(i)}: ${(100 * share).toFixed(1)} %`));
  });
  const ticks = [[0, "‹"], [6, "−5"], [11, "0"], [16, "+5"], [22, "›"]];
  const labels = ticks.map(([i, text]) => s("text", { class: "tick", x: step * (i + 0.5), y: base + 18, "text-anchor": "middle" }, text));
  const end = best < 2 ? "start" : best > shares.length - 3 ? "end" : "middle";
  const value = s("text", { class: "column-text", x: step * (best + 0.5), y: top - 6, "text-anchor": end }, `${name(best)}: ${Math.round(100 * shares[best])} %`);
  const drawing = s("svg", { class: "offsets", viewBox: `0 0 ${width} 118`, role: "img", "aria-label": `Offsets of the largest weight; most often ${name(best)}, ${Math.round(100 * shares[best])} %` }, s("path", { class: "rule", d: `M0 ${base}H${width}` }), ...columns, ...labels, value);
  return part(title, drawing);
}

function sinksPart(sinks) {
  if (!sinks.length) return null;
  const rows = sinks.flatMap((sink) => [
    h("span", { class: "what" }, sink.label),
    track(sink.value), h("span", { class: "amount" }, sink.text),
    track(sink.norm, "norm"), h("span", { class: "amount norm-text" }, sink.norm_text),
  ]);
  const key = h("p", { class: "pairs-key" }, h("span", {}, track(1), " weight"), h("span", {}, track(1, "norm"), " norm-weighted"));
  return part("Weight against norm-weighted share", h("div", { class: "pairs" }, ...rows), key);
}

function patternsPart(patterns) {
  const colours = (i) => ({ "--pattern": PATTERNS[i % 5][0], "--pattern-ink": PATTERNS[i % 5][1] });
  const spans = patterns.map((p, i) => h("span", { ...colours(i), "--size": p.value, title: `${p.label} ${p.text}` }, p.value >= 0.12 ? p.text : ""));
  const key = patterns.map((p, i) => h("li", {}, h("i", colours(i)), `${p.label} ${p.text}`));
  return part("Pattern of its maps", h("div", { class: "patterns", "aria-hidden": "true" }, ...spans), h("ul", { class: "patterns-key" }, ...key));
}

// The first maps are the measures, in the same order as a card's numbers.
function numbersPart(head, nullTexts) {
  const index = place.get(head);
  const rows = nullTexts.map((nullText, i) => h(
    "tr", {},
    h("th", { scope: "row", title: data.maps[i].about }, data.maps[i].label),
    h("td", { class: "number" }, data.maps[i].texts[index]),
    data.hasNull && h("td", { class: "number" }, nullText),
  ));
  const heading = data.hasNull && h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "number"), h("th", { scope: "col", class: "number" }, "this head"), h("th", { scope: "col", class: "number" }, "random weights")));
  return h("details", { class: "all-numbers" }, h("summary", {}, "All its numbers"), h("table", {}, heading, h("tbody", {}, ...rows)));
}

/** The examples of a head, with the swatch of the kind that leads it in the map; without a role, null. */
function examplesPart(examples, kind) {
  const body = h("div");
  const one = data.examples.slice(0, -1), many = one[0].toUpperCase() + data.examples.slice(1);
  const buttons = examples.map((_, i) => h("button", { type: "button", "aria-label": `${one} ${i + 1}`, onclick: () => show(i) }, String(i + 1)));
  function show(index) {
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(i === index)));
    const example = examples[index];
    const caption = h("p", { class: "caption" }, kind && swatch(kind), ` ${example.caption}`, example.note ? ` (${example.note})` : "");
    body.replaceChildren(caption, drawExample(example, card.clientWidth - 4));
    drawn = [index, card.clientWidth];
  }
  let drawn;
  show(0);
  new ResizeObserver(() => { if (card.clientWidth && card.clientWidth !== drawn[1]) show(drawn[0]); }).observe(body);
  return part(kind ? `${many} of a sample that show its role best` : `${many} of a sample where it is most confident`, h("div", { class: "tabs" }, ...buttons), body);
}
