// Trying the classifier on an image: bars, "unknown", and why.

import { attempt, get, send } from "./api.js";
import { at, make, meter, percent, small } from "./elements.js";
import { takesDrops } from "./files.js";

let shown = null; // the address of the picture
let asked = 0, last = null; // what was asked last, to be asked again

export function setUp() {
  at("try-drop").addEventListener("click", () => at("try-file").click());
  at("try-file").addEventListener("change", () => { tryImage(at("try-file").files[0]); at("try-file").value = ""; });
  takesDrops(at("try-drop"), ({ files, photos }) => (photos ? tryPhoto(photos[0]) : files.length && tryImage(files[0].file)));
}

export function tryPhoto(digest) {
  picture(small(digest));
  last = () => get("answer", { photo: digest });
  return ask(last);
}

// Ask again, when the classifier has changed.
export function again() { if (last) ask(last); }

export function tryImage(file, live = false) {
  if (!file) return null;
  const asking = () => {
    const form = new FormData();
    form.append("image", file, file.name || "image");
    return send("try", form);
  };
  if (!live) {
    picture(URL.createObjectURL(file));
    last = asking;
  }
  return ask(asking);
}

function picture(address) {
  if (shown?.startsWith("blob:")) URL.revokeObjectURL(shown);
  shown = address;
  at("try-image").src = shown;
  at("try-image").alt = "The image being classified";
  at("try-image").hidden = false;
  at("try-hint").hidden = true;
}

async function ask(asking) {
  const mine = ++asked, answer = await attempt(asking);
  if (answer !== null && mine === asked) show(answer);
}

function show(answer) {
  const verdict = answer.unknown ? "Unknown: unlike all your photos" : answer.label;
  const bars = answer.bars.slice(0, 6).map((bar) =>
    make("li", {}, make("span", { class: "name" }, bar.name), make("span", {}, percent(bar.probability)), meter(bar.probability)));
  at("answer").replaceChildren(...[
    make("p", { class: answer.unknown ? "verdict unknown" : "verdict" }, verdict),
    make("ul", { class: "bars" }, ...bars),
    answer.judged ? null : make("p", { class: "hint" }, "Still checking whether it is unknown."),
  ].filter(Boolean));
  const near = answer.nearest.map((one) =>
    make("figure", {}, make("img", { src: small(one.digest), alt: `A photo of ${one.label}` }), one.label));
  const parts = answer.parts.map((part) =>
    make("li", {}, make("span", {}, part.reading), make("span", {}, (part.value > 0 ? "+" : "") + part.value.toFixed(2))));
  at("why").replaceChildren(
    ...(near.length ? [make("h3", {}, "Most similar photos"), make("div", { class: "near" }, ...near)] : []),
    make("h3", {}, `Why ${answer.label} rather than ${answer.second}?`),
    make("ul", { class: "parts" }, ...parts,
      make("li", {}, make("span", {}, "number of photos"), make("span", {}, answer.prior.toFixed(2)))),
    make("p", { class: "hint" }, "Log-odds from each layer of the network; positive numbers support the answer."));
}
