/* What a picture of a page would show wrong, as lists of words: one for what lies over another, is beyond the
 * screen, has nothing in it, or is faint. Texts and controls are boxes, less what a scrolled ancestor hides of them; of what
 * is drawn in a canvas it is said that something is, and Cytoscape is asked for its colours. */
(() => {
  const CONTROLS = "button, input, select, textarea, #canvas";
  const seen = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const scrolls = (style) => style.overflowX !== "visible" || style.overflowY !== "visible";
  const word = (element, text = "") =>
    `${element.tagName.toLowerCase()}#${element.closest("[id]")?.id} ${text || element.textContent}`.trim().slice(0, 80);

  /** The part of a box that no ancestor hides, or null; and whether one of them scrolls. */
  function shown(box, element) {
    let { left, top, right, bottom } = box, within = false;
    for (let one = element; one !== document.body && one; one = one.parentElement) {
      if (!scrolls(getComputedStyle(one))) continue;
      within = true;
      const edge = one.getBoundingClientRect();
      left = Math.max(left, edge.left); right = Math.min(right, edge.right);
      top = Math.max(top, edge.top); bottom = Math.min(bottom, edge.bottom);
    }
    return right - left > 2 && bottom - top > 2 ? { left, top, right, bottom, within } : null;
  }

  /** Every box with a text or a control in it that can be seen, or scrolled to on the page. */
  function boxes() {
    const found = [];
    const put = (box, element, text) => {
      const part = shown(box, element);
      if (part) found.push({ ...part, element, text });
    };
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = texts.nextNode(); node; node = texts.nextNode()) {
      if (!node.data.trim() || !seen(node.parentElement)) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      for (const box of range.getClientRects()) put(box, node.parentElement, node.data);
    }
    for (const element of document.querySelectorAll(CONTROLS)) {
      if (seen(element)) put(element.getBoundingClientRect(), element, "");
    }
    return found;
  }

  // A table's head that sticks to the edge has rows below it: that is what it is for.
  const sticks = (head, other) => {
    const row = head.closest("thead");
    return row && !row.contains(other) && row.parentElement.contains(other);
  };

  function overlaps(all) {
    const said = [];
    const sorted = [...all].sort((a, b) => a.top - b.top);
    sorted.forEach((one, at) => {
      for (let next = at + 1; next < sorted.length && sorted[next].top < one.bottom - 3; next += 1) {
        const other = sorted[next];
        const wide = Math.min(one.right, other.right) - Math.max(one.left, other.left);
        const meant = [[one.element, other.element], [other.element, one.element]]
          .some(([outer, inner]) => outer.contains(inner) || sticks(outer, inner));
        if (wide > 3 && !meant && Math.min(one.bottom, other.bottom) - other.top > 3) {
          said.push(`${word(one.element, one.text)} | ${word(other.element, other.text)}`);
        }
      }
    });
    return said;
  }

  function blank(canvas) {
    if (!canvas.width || !canvas.height) return true;
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return !data.some((value, at) => at % 4 === 3 && value > 0);
  }

  /** Red, green, blue and how opaque, of a colour that a browser has computed. */
  function colour(text) {
    const [red, green, blue, opaque = 1] = text.match(/[\d.]+/g).map(Number);
    if (!text.startsWith("rgb")) throw new Error(`a colour of another kind: ${text}`);
    return [red, green, blue, opaque];
  }
  const over = ([red, green, blue, opaque], below) =>
    [red, green, blue].map((value, at) => value * opaque + below[at] * (1 - opaque));

  /** What is behind an element: the backgrounds of its ancestors, from the page on. */
  function behind(element) {
    let below = [255, 255, 255];
    for (const one of [document.body, ...ancestors(element)]) below = over(colour(getComputedStyle(one).backgroundColor), below);
    return below;
  }
  function ancestors(element) {
    const found = [];
    for (let one = element; one && one !== document.body; one = one.parentElement) found.unshift(one);
    return found;
  }

  // WCAG 2.1: relative luminance, and the ratio of two.
  const luminance = (three) => three.map((value) => value / 255)
    .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
    .reduce((sum, value, at) => sum + value * [0.2126, 0.7152, 0.0722][at], 0);
  function ratio(one, other) {
    const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  }

  /** Texts with a contrast below 4.5, and what a graph has below 3 (its names: 4.5). */
  function faint(all) {
    const said = [];
    const judge = (ink, below, least, name) => {
      const found = ratio(over(ink, below), below);
      if (found < least) said.push(`${name}: ${found.toFixed(1)}`);
    };
    for (const { element, text } of all) {
      if (!text || element.closest(":disabled, [aria-disabled=true]")) continue;
      const [red, green, blue, opaque] = colour(getComputedStyle(element).color);
      const share = ancestors(element).reduce((part, one) => part * getComputedStyle(one).opacity, opaque);
      judge([red, green, blue, share], behind(element), 4.5, word(element, text));
    }
    const canvas = document.querySelector("#canvas");
    const graph = canvas && seen(canvas) ? canvas._cyreg?.cy : null;
    for (const [what, style, least] of [["nodes", "color", 4.5], ["nodes", "background-color", 3], ["edges", "line-color", 3]]) {
      for (const ink of new Set(graph?.[what]().map((one) => one.style(style)))) {
        judge(colour(ink), behind(canvas), least, `${style} of ${what}`);
      }
    }
    return said;
  }

  window.looks = () => {
    const all = boxes();
    const beyond = all.filter((one) => one.left < -1 || one.right > document.documentElement.clientWidth + 1);
    const panes = [...document.querySelectorAll("section, [role=tabpanel], #changes-box, #proof, #canvas")].filter(seen);
    return {
      overlaps: overlaps(all),
      faint: [...new Set(faint(all))],
      beyond: beyond.map((one) => word(one.element, one.text)),
      empty: panes.filter((pane) => !all.some((one) => one.element !== pane && pane.contains(one.element))
        && [...pane.querySelectorAll("canvas")].every(blank)).map((pane) => word(pane, "nothing")),
    };
  };

  const edge = (element) => {
    const style = getComputedStyle(element);
    return [style.outlineStyle, style.outlineWidth, style.borderColor, style.boxShadow, style.backgroundColor].join();
  };

  /** What the tab key is to reach, each with its edge as it is without the focus. */
  window.reachable = () => {
    document.activeElement.blur();
    const all = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")];
    window.unfocused = new Map(all.filter((one) => seen(one) && !one.disabled && one.tabIndex >= 0)
      .map((one) => [one, edge(one)]));
    return unfocused.size;
  };

  /** Of what has the focus: what is wrong with it, or "" ; null where nothing has it. */
  window.focused = () => {
    const element = document.activeElement;
    if (element === document.body) return null;
    const before = unfocused.get(element);
    unfocused.delete(element);
    if (before === undefined) return `${word(element)}: a second time`;
    if (before === edge(element)) return `${word(element)}: looks as before`;
    const { left, top, right, bottom } = element.getBoundingClientRect();
    const there = [[left + right, top + bottom], [2 * left + 4, 2 * top + 4]].some(([x, y]) => {
      const hit = document.elementFromPoint(x / 2, y / 2);
      return hit && (element.contains(hit) || hit.contains(element) && hit === element.parentElement);
    });
    return there ? "" : `${word(element)}: out of sight`;
  };

  window.unreached = () => [...unfocused.keys()].map((one) => word(one));
})();
