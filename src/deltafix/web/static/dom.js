// Elements from data. Text goes in as text nodes only, so rows cannot be markup.

export function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== false && value !== undefined) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

export const byId = (id) => document.getElementById(id);

const nameOf = (button) => button.getAttribute("aria-label") ?? button.dataset.relation ?? button.textContent;

// Draws, and gives the focus to the button that stands for the one that had it.
export function keepFocus(draw) {
  const had = document.activeElement;
  draw();
  if (!had.isConnected) [...document.querySelectorAll("button")].find((one) => nameOf(one) === nameOf(had))?.focus();
}
