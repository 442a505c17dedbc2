// The confusion matrix; a cell opens its photos.

import { attempt, get } from "./api.js";
import { at, make, plural } from "./elements.js";

export async function drawMatrix(open) {
  const found = at("confusion").open ? await attempt(() => get("confusion")) : null;
  if (found === null) return;
  if (!found.classes.length) {
    const said = found.hidden ? `${found.hidden} classes are too many to draw; download the report for the most frequent mistakes.` : "Nothing to show yet.";
    at("matrix").replaceChildren(make("caption", {}, said));
    return;
  }
  const head = make("tr", {}, make("td"), ...found.classes.map((name) => make("th", { scope: "col", title: name }, name)));
  const rows = found.counts.map((row, i) => make("tr", {}, make("th", { scope: "row", title: found.classes[i] }, found.classes[i]),
    ...row.map((count, j) => make("td", {}, make("button", {
      type: "button", class: count === 0 ? "" : i === j ? "right" : "wrong", disabled: count === 0,
      "aria-label": `${plural(count, "photo")} of ${found.classes[i]} classified as ${found.classes[j]}`,
      onclick: () => open(found.classes[i], found.classes[j]),
    }, String(count))))));
  at("matrix").replaceChildren(make("caption", { class: "hidden" }, "Rows are labels, columns are predictions"),
    make("thead", {}, head), make("tbody", {}, ...rows));
}
