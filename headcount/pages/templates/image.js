// One image: the attention of a patch, of the class token or of all patches, over the picture.

const PICTURE = 208;

/** The image with a heat map over its patches; pressing a patch shows its own attention. */
function drawImage(example) {
  const picture = data.pictures[example.image];
  const keys = example.special + example.rows * example.columns;
  const bytes = Uint8Array.from(atob(example.weights), (letter) => letter.charCodeAt(0));
  const side = PICTURE / Math.max(example.rows, example.columns);
  const [width, height] = [side * example.columns, side * example.rows];
  const patches = example.queries.map(placeOf);
  const places = patches.filter(Boolean);
  const pace = places.length > 1 ? Math.max(places[1].column - places[0].column, 1) : 1;
  let [shown, middle] = [0, 0];
  const cells = [];
  const at = (row, column) => ({ x: side * column, y: side * row, width: side, height: side });
  for (let row = 0; row < example.rows; row++) {
    for (let column = 0; column < example.columns; column++) {
      cells.push(s("rect", { class: "heat", ...at(row, column), onclick: () => show(nearest(patches, row, column)) }, s("title")));
    }
  }
  const frame = s("rect", { class: "from", width: side, height: side });
  const drawing = s(
    "svg", { class: "image", viewBox: `-2 -2 ${width + 4} ${height + 4}`, role: "img", tabindex: 0, onkeydown: move },
    s("image", { href: picture, width, height, preserveAspectRatio: "none" }), ...cells, frame,
  );
  const plain = h("img", { class: "picture", src: picture, alt: "the image", width, height });
  const outside = h("p", { class: "hint", "aria-live": "polite" });
  const whole = example.queries.filter((_, i) => !patches[i]);
  const buttons = whole.map((name, i) => h("button", { type: "button", onclick: () => show(i) }, name === "[CLS]" ? "class token" : name));
  function move(event) {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    const from = patches[shown] ?? patches[middle];
    show(nearest(patches, from.row + pace * step[0], from.column + pace * step[1]));
  }
  function show(index) {
    shown = index;
    const weights = [...bytes.subarray(index * keys, (index + 1) * keys)].map((weight) => (example.largest[index] * weight) / 255);
    const on = weights.slice(example.special);
    const top = Math.max(...on) || 1;
    cells.forEach((cell, i) => {
      cell.style.opacity = (0.8 * on[i]) / top;
      cell.firstChild.textContent = `weight ${on[i].toFixed(2)}`;
    });
    const place = patches[index];
    frame.style.display = place ? "" : "none";
    if (place) fill(frame, at(place.row, place.column), []);
    const who = place ? `the patch in row ${place.row + 1}, column ${place.column + 1}` : whole[index] === "[CLS]" ? "the class token" : "all patches, on average";
    const best = on.indexOf(Math.max(...on));
    const peak = `row ${Math.floor(best / example.columns) + 1}, column ${(best % example.columns) + 1}`;
    const rest = example.special ? ` The class token gets ${Math.round(100 * weights[0])} %.` : "";
    outside.textContent = `Attention of ${who}: the largest weight, ${on[best].toFixed(2)}, is on ${peak}.${rest}`;
    drawing.setAttribute("aria-label", outside.textContent);
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(i === index)));
  }
  middle = nearest(patches, (example.rows - 1) / 2, (example.columns - 1) / 2);
  const average = example.queries.findIndex((name, i) => !patches[i] && name !== "[CLS]");
  const isOfPlaces = ["positional", "line", "local"].includes(example.role);  // seen from one patch
  show(example.role === "sink" ? 0 : isOfPlaces ? middle : average);
  return h(
    "div", { class: "image-example" }, h("div", { class: "pictures" }, drawing, plain), outside,
    h("div", { class: "tabs" }, ...buttons), h("p", { class: "hint" }, "Press a patch, or use the arrow keys, to see where it looks."),
  );
}

/** Row and column of a patch from its name, from 0; nothing for other names. */
function placeOf(name) {
  const found = /^r(\d+)c(\d+)$/.exec(name);
  return found && { row: found[1] - 1, column: found[2] - 1 };
}

/** The index of the map of the patch that is nearest to a place. */
function nearest(patches, row, column) {
  const far = (place) => (place ? Math.hypot(place.row - row, place.column - column) : Infinity);
  return patches.reduce((best, place, i) => (far(place) < far(patches[best]) ? i : best), 0);
}
