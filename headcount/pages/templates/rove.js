// Arrow keys move between the buttons of a grid, which have data-row and data-column.

const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

function moveFocus(event) {
  const step = STEPS[event.key];
  if (!step) return;
  const group = event.target.closest('[role="group"]');
  const cell = neighbour([...group.querySelectorAll("[data-row]")], event.target, ...step);
  if (!cell) return;
  event.preventDefault();
  rove(group, cell);
  cell.focus();
}

// Layers differ in their number of heads, and some have none: up and down skip to the next with heads.
function neighbour(cells, from, down, right) {
  const [row, column] = at(from);
  if (right) return cells.find((cell) => at(cell)[0] === row && at(cell)[1] === column + right);
  const distance = (cell) => [down * (at(cell)[0] - row), Math.abs(at(cell)[1] - column)];
  const nearer = (a, b) => distance(a)[0] - distance(b)[0] || distance(a)[1] - distance(b)[1];
  return cells.filter((cell) => distance(cell)[0] > 0).sort(nearer)[0];
}

const at = (cell) => [Number(cell.dataset.row), Number(cell.dataset.column)];

// One tab stop per grid: arrow keys do the rest.
function rove(group, stop) {
  for (const cell of group.querySelectorAll("[data-row]")) cell.tabIndex = cell === stop ? 0 : -1;
}
