// How good the classifier is, in a line and a curve.

import { at, percent, plural } from "./elements.js";

export function drawScore(state) {
  const known = state.accuracy !== null, { tested } = state;
  at("accuracy").textContent = known ? percent(state.accuracy) : "–";
  at("score-text").textContent = known ? `${state.right.toLocaleString("en")} of ${plural(state.measured, "photo")} right`
    : state.photos ? state.said || "No classifier yet" : "No classifier yet";
  at("score-about").hidden = !known;
  at("test-score").textContent = tested.measured ? `Test set: ${tested.right} of ${tested.measured} right` : "";
  if (known) {
    const range = ([low, high]) => `${percent(low)} to ${percent(high)}`;
    at("score-details").textContent = "Each photo was classified by a classifier that had not learned from it (exact leave-one-out). "
      + `Of new photos like these, ${range(state.interval)} will be right (95\u00a0% interval).`
      + (tested.measured ? ` The test set has ${plural(tested.measured, "photo")} that were never learned from: ${percent(tested.accuracy)} right (95\u00a0% interval: ${range(tested.interval)}).` : "");
  }
  const points = state.curve, curve = at("curve");
  curve.replaceChildren();
  curve.toggleAttribute("hidden", points.length < 2);
  if (points.length < 2) return;
  const x = (i) => 2 + (116 * i) / (points.length - 1), y = (share) => 30 - 28 * share;
  const path = (kind, d) => {
    const one = document.createElementNS(curve.namespaceURI, "path");
    one.setAttribute("d", d);
    one.setAttribute("class", kind);
    curve.append(one);
  };
  const along = (i) => points.map((point, at) => `${x(at).toFixed(1)} ${y(point[i]).toFixed(1)}`);
  path("band", `M${along(3).join("L")}L${along(2).reverse().join("L")}Z`);
  path("line", `M${along(1).join("L")}`);
}
