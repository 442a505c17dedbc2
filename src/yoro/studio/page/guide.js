// One line that names the next step, with a button that begins it.

import { at, make, plural } from "./elements.js";

const FEW = 5, HIDDEN = "yoro-studio-guide-hidden";

// The next step of a person: what to do, what the button says, and what it does.
function next(state, sending, tried, does) {
  if (sending === "no answer") return ["Start the studio again, as you did before. This page then goes on by itself.", null, null];
  if (sending === "stuck") return ["Send the photos again that the studio did not receive.", "Send them again", does.send];
  if (sending === "busy") return ["Your photos are being added.", null, null];
  const [first, second] = state.classes;
  if (!first) return ["Name what you want to tell apart, one class for each thing. Start with the first.", "Name a class", does.name];
  if (!second) return [`Name a second class: what is not ${first.name}?`, "Name a class", does.name];
  const few = state.classes.toSorted((a, b) => a.count + a.unseen - b.count - b.unseen)[0], has = few.count + few.unseen;
  if (has < FEW) return [`Add photos of ${few.name}: it has ${has ? `only ${has}` : "none"}, and five are a good start.`, "Add photos", () => does.add(few.id)];
  if (!state.learned || state.read < state.photos) return ["Wait while it learns from your photos.", null, null];
  if (!tried && !state.tests) return ["Try it with a photo that it has not seen.", "Try a photo", does.try];
  if (state.unsorted) return [`Sort the ${plural(state.unsorted, "photo")} without a class: they come in groups that look alike.`, "Show them", does.tray];
  if (state.suspicious) return [`Look at ${state.suspicious === 1 ? "this photo" : `these ${plural(state.suspicious, "photo")}`}: the label may be wrong.`, "Show", does.review];
  return ["Download it and use it, or add photos where it is often wrong.", "Download", does.download];
}

let drawn = "";

export function draw(state, sending, tried, does) {
  const hidden = localStorage.getItem(HIDDEN) !== null, [said, button, act] = next(state, sending, tried, does);
  at("guide").hidden = hidden;
  at("guide-again").hidden = !hidden;
  if (drawn === said) return;
  drawn = said;
  at("guide-text").replaceChildren(make("b", {}, "Next: "), said);
  at("guide-act").hidden = !button;
  at("guide-act").textContent = button ?? "";
  at("guide-act").onclick = act;
}

export function setUp(redraw) {
  at("guide-close").addEventListener("click", () => { localStorage.setItem(HIDDEN, "1"); redraw(); });
  at("guide-again").addEventListener("click", () => { localStorage.removeItem(HIDDEN); redraw(); });
}
