// Trying the classifier on an image: bars, "unknown", and why.

import { get, image, reason, send } from "./api.js";
import { at, clear, make, meter, percent, small } from "./elements.js";
import { takesDrops } from "./files.js";

let shown = null; // the address of the picture
let asked = 0, last = null; // what was asked last, to be asked again
let seen = null; // asks for the picture of what mattered
export let tries = 0; // images that were answered

let told = () => {};
export function setUp(answered) {
  told = answered;
  at("try-drop").addEventListener("click", () => at("try-file").click());
  at("try-file").addEventListener("change", () => { tryImage(at("try-file").files[0]); at("try-file").value = ""; });
  takesDrops(at("try-drop"), ({ files, photos }) => (photos ? tryPhoto(photos[0]) : files?.length && tryImage(files[0].file)));
  at("try-image").addEventListener("error", () => { at("try-image").hidden = true; at("try-hint").hidden = false; });
}

export function tryPhoto(digest) {
  picture(small(digest));
  last = () => get("answer", { photo: digest });
  seen = () => image("mattered", { photo: digest });
  return ask(last);
}

// Ask again, when the classifier has changed.
export function again() { if (last) ask(last, true); }

export function tryImage(file, live = false) {
  if (!file) return null;
  const form = () => {
    const filled = new FormData();
    filled.append("image", file, file.name || "image");
    return filled;
  };
  const asking = () => send("try", form());
  if (!live) {
    picture(URL.createObjectURL(file));
    last = asking;
    seen = () => image("mattered", {}, form());
  }
  return ask(asking, live);
}

// An answer belongs to the picture above it: it goes when another picture comes.
function picture(address) {
  if (shown?.startsWith("blob:")) URL.revokeObjectURL(shown);
  shown = address;
  at("try-image").src = shown;
  at("try-image").alt = "The image being classified";
  at("try-image").hidden = false;
  at("try-hint").hidden = true;
  at("answer").replaceChildren(make("p", { class: "hint" }, "Looking…"));
  at("why").replaceChildren();
}

async function ask(asking, quiet = false) {
  const mine = ++asked, before = shown;
  try {
    const answer = await asking();
    if (mine !== asked) return;
    if (answer.picture && at("try-image").hidden && before === shown) await draw(answer.picture);
    if (last) tries += 1;
    if (!quiet) clear();
    show(answer);
  } catch (error) {
    if (mine !== asked) return;
    at("answer").replaceChildren(make("p", { class: "verdict unknown" }, "No answer"), make("p", {}, reason(error)));
    at("why").replaceChildren();
  }
  told();
}

// A picture that the browser cannot show, such as a HEIC, as the studio decoded it.
async function draw(encoded) {
  const bytes = Uint8Array.from(atob(encoded), (letter) => letter.charCodeAt(0));
  shown = URL.createObjectURL(new Blob([bytes], { type: "image/jpeg" }));
  at("try-image").src = shown;
  at("try-image").hidden = false;
  at("try-hint").hidden = true;
}

function show(answer) {
  const verdict = answer.unknown ? "Unknown: unlike all your photos" : answer.label;
  const bars = answer.bars.slice(0, 6).map((bar) =>
    make("li", {}, make("span", { class: "name" }, bar.name), make("span", {}, percent(bar.probability)), meter(bar.probability)));
  at("answer").replaceChildren(...[
    make("p", { class: answer.unknown ? "verdict unknown" : "verdict" }, verdict),
    answer.unknown ? make("p", { class: "hint" }, `If it is one of your classes after all, it is most likely ${answer.label}.`) : null,
    make("ul", { class: "bars" }, ...bars),
    answer.left_out ? make("p", { class: "hint", id: "left-out" }, leftOut(answer)) : null,
    answer.judged ? null : make("p", { class: "hint" }, "Still checking whether it is unknown."),
  ].filter(Boolean));
  const near = answer.nearest.map((one) =>
    make("figure", {}, make("img", { src: small(one.digest), alt: `A photo of ${one.label}` }), one.label));
  at("why").replaceChildren(
    mattered(answer),
    ...(near.length ? [make("h3", {}, "Most similar photos"), make("div", { class: "near" }, ...near)] : []),
    details(answer));
}

// Why a photo of the gallery has two figures.
function leftOut({ left_out: { label, probability }, bars }) {
  const same = label === bars[0].name && Math.abs(probability - bars[0].probability) < 0.01, says = `${label}, ${percent(probability)}`;
  return same ? `This is a training photo. A classifier without it says the same: ${says}.`
    : `This is a training photo, so the answer is more confident than for a new one. A classifier without it says ${says}.`;
}

function mattered(answer) {
  const place = make("div", { class: "mattered" });
  const button = make("button", { type: "button", onclick: async () => {
    button.disabled = true;
    button.textContent = "Looking…";
    const mine = asked;
    try {
      const found = URL.createObjectURL(await seen());
      if (mine !== asked) return;
      const light = make("img", { src: found, alt: `The parts that support ${answer.label} are bright`, onload: () => URL.revokeObjectURL(found) });
      light.style.aspectRatio = `${at("try-image").naturalWidth} / ${at("try-image").naturalHeight}`; // the network sees a square
      place.replaceChildren(make("h3", {}, "What mattered"), light,
        make("p", { class: "hint" }, `Bright parts support ${answer.label}: without them, it would be less probable.`));
    } catch (error) {
      place.replaceChildren(make("p", { class: "hint" }, reason(error)));
    }
  } }, "Show what mattered");
  place.append(button);
  return seen ? place : "";
}

const signed = (value) => (value > 0 ? "+" : "") + (Math.round(100 * value) / 100 + 0).toFixed(2);

function details(answer) {
  const parts = answer.parts.map((part) =>
    make("li", {}, make("span", {}, part.reading), make("span", {}, signed(part.value))));
  return make("details", {}, make("summary", {}, "Details"),
    make("p", { class: "hint" }, `Why ${answer.label} rather than ${answer.second}: log-odds from each layer of the network; positive numbers support the answer.`),
    make("ul", { class: "parts" }, ...parts,
      make("li", {}, make("span", {}, "number of photos"), make("span", {}, signed(answer.prior)))));
}
