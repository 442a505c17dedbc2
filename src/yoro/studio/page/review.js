// Labels to review: a tile shows the label and the more probable class, with Accept, Keep and Next.

import { at, make, percent, small } from "./elements.js";

// A tile; `act` takes the digest and one of "accept", "keep" and "next".
export function tile(photo, old, act) {
  const said = `now ${photo.label}, rather ${photo.guess}, ${percent(photo.probability)}`;
  if (old?.dataset.said === said) return old;
  const button = (verb, name, key, about) => make("button", {
    type: "button", "aria-keyshortcuts": key, title: `${about} (key ${key})`, "aria-label": `${name}: ${about}`,
    onclick: (event) => { event.stopPropagation(); act(photo.digest, verb); },
  }, name);
  return make("li", { class: "review", "data-digest": photo.digest, "data-said": said, draggable: "true", title: photo.name },
    make("img", { src: small(photo.digest), alt: photo.name, loading: "lazy", draggable: "false" }),
    make("p", { class: "judged" }, "now ", make("b", {}, photo.label), ", rather ", make("b", {}, photo.guess), `, ${percent(photo.probability)}`),
    make("div", { class: "verdicts" },
      button("accept", "Accept", "A", `it is ${photo.guess}`),
      button("keep", "Keep", "K", `it is ${photo.label}`),
      button("next", "Next", "N", "leave it and go on")));
}

export const KEYS = { a: "accept", k: "keep", n: "next" };

export function about(state, hard) {
  if (hard) return "Their labels may well be right: these photos are hard to classify. More photos like them help.";
  return state.suspicious ? `About ${state.wrong.toLocaleString("en")} wrong label${state.wrong === 1 ? "" : "s"} expected. The most suspicious come first.` : "";
}

export function focus(digest) {
  const item = [...at("gallery").children].find((one) => one.dataset.digest === digest);
  item?.querySelector("button")?.focus();
}
