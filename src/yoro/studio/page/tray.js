// The tray of unsorted photos: groups that look alike are named at once, sure labels accepted at once.

import { attempt, get, post } from "./api.js";
import { at, make, percent, plural, small, unsure } from "./elements.js";

const SHOWN = 24; // photos of a group
const strangers = new Set(); // photos that a person took out of their group
let drawn = "", asked = 0;

export function hide() {
  at("tray").hidden = true;
  drawn = "";
}

export async function show(state) {
  const mine = ++asked;
  at("tray").hidden = false;
  if (!drawn) at("tray").replaceChildren(make("p", { class: "hint" }, "Looking for photos that are alike…"));
  const found = await attempt(() => get("tray"));
  if (found === null || mine !== asked || at("tray").hidden) return;
  const now = JSON.stringify([found, state.classes.map((one) => one.name)]);
  if (now === drawn || at("tray").contains(document.activeElement) && document.activeElement.value) return;
  drawn = now;
  at("tray").replaceChildren(...accepting(found), ...found.groups.map((digests, place) => group(state, digests, place, found.groups)),
    found.waiting ? make("p", { class: "hint" }, `${plural(found.waiting, "photo")} not processed yet.`) : "");
}

function accepting({ accept, expected: all }) {
  if (!accept.length) return all === null ? [] : [make("p", { class: "hint" }, unsure(all))];
  return [make("h3", {}, "Accept at once"),
    make("p", { class: "hint" }, "Labels that the classifier proposes. Name the groups of new things first: it only knows classes that it has seen."),
    make("div", { class: "row" }, ...accept.map(({ expected, photos }) => make("button", {
      type: "button", onclick: () => attempt(() => post("sort", { photos })),
    }, `Accept ${plural(Object.keys(photos).length, "photo")}, expected to be right: ${percent(expected)}`)))];
}

function group(state, digests, place, groups) {
  const input = make("input", { maxlength: "200", autocomplete: "off", list: "class-names", placeholder: "Name this group", "aria-label": `Name of group ${place + 1}` });
  const chosen = () => digests.filter((digest) => !strangers.has(digest));
  const button = make("button", { type: "submit" }, "Name");
  const thumbs = digests.slice(0, SHOWN).map((digest, i) => make("button", {
    type: "button", class: "thumb", "aria-pressed": String(!strangers.has(digest)), "aria-label": `Photo ${i + 1} of group ${place + 1} belongs to it`,
    onclick: (event) => {
      if (!strangers.delete(digest)) strangers.add(digest);
      event.currentTarget.setAttribute("aria-pressed", String(!strangers.has(digest)));
    },
  }, make("img", { src: small(digest), alt: "", loading: "lazy" })));
  const form = make("form", { class: "row", onsubmit: async (event) => {
    event.preventDefault();
    const name = input.value, photos = Object.fromEntries(chosen().map((digest) => [digest, name]));
    input.value = drawn = ""; // what is being written is not drawn over
    if (await attempt(() => post("sort", { photos })) === null) input.value = name;
  } }, input, button);
  const regroup = (words, verb, photos) => make("button", {
    type: "button", onclick: async () => { if (await attempt(() => post(`tray/${verb}`, { photos })) !== null) show(state); },
  }, words);
  if (digests.length > 1) form.append(regroup("Split in two", "split", digests));
  if (place) form.append(regroup(`Join with group ${place}`, "join", [...groups[place - 1], ...digests]));
  const more = digests.length - SHOWN;
  return make("div", { class: "group" }, make("h3", {}, `Group ${place + 1}: ${plural(digests.length, "photo")}`), form,
    make("p", { class: "hint" }, "Click photos that do not belong to it; they stay unsorted."),
    make("div", { class: "thumbs" }, ...thumbs), more > 0 ? make("p", { class: "hint" }, `And ${more} more.`) : "");
}
