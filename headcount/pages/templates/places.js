// A text beside a picture: where a word looks, over the picture; and which words look at a part of it.

/** An example of whatever kind. */
function drawExample(example, width) {
  if (example.regions) return drawPlaces(example);
  return example.rows ? drawImage(example) : drawSentence(example, width);
}

/** The picture with a heat map of a word's weights; pressing a part shades the words that look there. */
function drawPlaces(example) {
  const [width, height] = [PICTURE, Math.max(20, Math.min(2 * PICTURE, (PICTURE * example.height) / example.width))];
  const bytes = Uint8Array.from(atob(example.weights), (letter) => letter.charCodeAt(0));
  const parts = pairs(example.regions, 4);
  const arcs = pairs(example.arcs, 2);
  const weight = (word, part) => (example.largest[word] * bytes[word * parts.length + part]) / 255;
  const at = ([left, top, right, bottom]) => ({ x: width * left, y: height * top, width: width * (right - left), height: height * (bottom - top) });
  const cells = parts.map((part, i) => s("rect", { class: "heat", ...at(part), onclick: () => showPart(i) }, s("title")));
  const frames = s("g", {});
  const href = data.pictures?.[example.image] ?? example.image;
  const drawing = s(
    "svg", { class: "image", viewBox: `-2 -2 ${width + 4} ${height + 4}`, role: "img" },
    s("image", { href, width, height, preserveAspectRatio: "none" }), ...cells, frames,
  );
  const plain = h("img", { class: "picture", src: href, alt: "the picture", width, height });
  const outside = h("p", { class: "hint", "aria-live": "polite" });
  const marked = new Set(arcs.map(([word]) => word));
  const words = example.words.map((text, i) => h("button", { type: "button", class: marked.has(i) ? "place-word arc" : "place-word", onclick: () => { showWord(i); example.chosen?.(i); } }, text));
  const outline = (chosen) => chosen.map((part) => s("rect", { class: "from", ...at(parts[part]) }));
  const tell = (text) => {
    outside.textContent = text;
    drawing.setAttribute("aria-label", text);
  };
  function showWord(word) {
    const on = parts.map((_, part) => weight(word, part));
    const [top, sum] = [Math.max(...on), on.reduce((a, b) => a + b, 0)];
    const full = Math.max(top, 1 / parts.length);  // so that a word that hardly looks there stays pale
    cells.forEach((cell, i) => {
      cell.style.opacity = (0.8 * on[i]) / full;
      cell.firstChild.textContent = `weight ${on[i].toFixed(2)}`;
    });
    frames.replaceChildren(...outline(arcs.filter(([from]) => from === word).map(([, part]) => part)));
    words.forEach((button, i) => {
      button.style.removeProperty("--part");
      button.setAttribute("aria-pressed", String(i === word));
    });
    tell(`“${example.words[word]}”: ${Math.round(100 * sum)} % of its attention is on the picture, at most ${top.toFixed(2)} on one part.`);
  }
  function showPart(part) {
    const by = example.words.map((_, word) => weight(word, part));
    const top = Math.max(...by);
    cells.forEach((cell, i) => { cell.style.opacity = i === part ? 0.5 : 0; });
    frames.replaceChildren(...outline([part]));
    words.forEach((button, i) => {
      button.style.setProperty("--part", `${Math.round((80 * by[i]) / (top || 1))}%`);
      button.setAttribute("aria-pressed", "false");
    });
    tell(`This part of the picture is looked at most by “${example.words[by.indexOf(top)]}”, with weight ${top.toFixed(2)}.`);
  }
  const most = example.words.map((_, word) => parts.reduce((sum, _, part) => sum + weight(word, part), 0));
  showWord(example.first ?? (arcs.length ? arcs[0][0] : most.indexOf(Math.max(...most))));
  return h(
    "div", { class: "image-example" }, h("div", { class: "pictures" }, drawing, plain), h("div", { class: "place-words" }, ...words), outside,
    h("p", { class: "hint" }, "Press a word to see where it looks, or a part of the picture to see which words look there."),
  );
}
