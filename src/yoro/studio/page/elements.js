// Elements of the page. Text of strangers, such as class names, only ever comes in as text.

export const at = (id) => document.getElementById(id);

export function make(tag, given = {}, ...inside) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(given)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "class") element.className = value;
    else if (value === true) element.setAttribute(key, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value);
  }
  element.append(...inside.filter((part) => part !== null));
  return element;
}

export function meter(share) {
  const fill = make("div", { class: "fill" });
  fill.style.transform = `scaleX(${share})`;
  return make("div", { class: "meter", "aria-hidden": "true" }, fill);
}

// As a percentage; what is nearly all or nearly nothing has a digit more, and is never rounded to all or nothing.
export function percent(share) {
  if (share > 0 && share < 0.001) return "<\u00a00.1\u00a0%";
  if (share < 1 && share > 0.999) return ">\u00a099.9\u00a0%";
  const near = (share < 1 && share > 0.995) || (share > 0 && share < 0.005);
  return `${(100 * share).toFixed(near ? 1 : 0)}\u00a0%`;
}

// Put children into a list without touching those that are in their place already.
export function arrange(list, wanted) {
  wanted.forEach((child, i) => { if (list.children[i] !== child) list.insertBefore(child, list.children[i] ?? null); });
  while (list.children.length > wanted.length) list.lastChild.remove();
}

export function plural(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

// Said where no proposed label is sure enough to be accepted at once.
export function unsure(expected) {
  return `More labels are needed before any can be accepted at once: ${percent(expected)} of those proposed are expected to be right.`;
}

// A message stays until the next action succeeds, or it is closed.
export function tell(sentence) {
  const place = at("message");
  place.hidden = !sentence;
  place.replaceChildren(sentence, ...(sentence
    ? [make("button", { type: "button", class: "close", "aria-label": "Close the message", onclick: clear }, "✕")] : []));
}

export const clear = () => tell("");

export const small = (digest) => `/studio/api/small/${digest}`;
