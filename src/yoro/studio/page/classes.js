// The classes: a list that is searched and sorted, with names that can be changed and classes that can be merged.

import { attempt, post } from "./api.js";
import * as camera from "./camera.js";
import { arrange, at, make, meter, percent, plural, tell } from "./elements.js";
import { CLASS, takesDrops } from "./files.js";

const SEVERAL = 8; // classes from which they can be searched and sorted
const ORDERS = {
  added: () => 0,
  name: (a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }),
  fewest: (a, b) => a.count + a.unseen - b.count - b.unseen,
  weakest: (a, b) => (a.recall ?? 2) - (b.recall ?? 2),
};

// Items are kept from one drawing to the next: a button that is held or pressed must not be replaced meanwhile.
const items = new Map();
let renaming = null; // the class whose name is being written
let state = null, view = null, actions = null;

export function setUp(given) {
  actions = given;
  at("find-class").addEventListener("input", () => state && redraw());
  at("sort-classes").addEventListener("change", () => state && redraw());
}

export function draw(now, shown) {
  state = now;
  view = shown;
  at("class-tools").hidden = now.classes.length < SEVERAL;
  redraw();
}

// The classes as they are listed; the keys 1 to 9 mean the first of them.
export function listed() {
  const wanted = at("find-class").value.trim().toLowerCase(), several = state.classes.length >= SEVERAL;
  const found = several && wanted ? state.classes.filter((one) => one.name.toLowerCase().includes(wanted)) : state.classes;
  return several ? found.toSorted(ORDERS[at("sort-classes").value]) : found;
}

function redraw() {
  const found = listed();
  arrange(at("classes"), found.map(classItem));
  at("no-class").hidden = found.length > 0 || !state.classes.length;
}

function classItem(one, place) {
  const key = JSON.stringify([one.id, one.name, renaming === one.id]);
  if (items.get(one.id)?.key !== key) items.set(one.id, { key, ...(renaming === one.id ? renamingItem(one) : plainItem(one)) });
  const { item, number, open, figures, fill } = items.get(one.id);
  const here = view.belongs === one.id && view.truth === undefined;
  item.className = here ? "shown" : "";
  number.textContent = place < 9 ? String(place + 1) : "";
  if (!open) return item;
  if (here) open.setAttribute("aria-current", "true");
  else open.removeAttribute("aria-current");
  figures.textContent = counts(one) + (one.recall === null ? "" : `, ${percent(one.recall)} right`);
  fill.hidden = one.recall === null;
  fill.firstChild.style.transform = `scaleX(${one.recall ?? 0})`;
  return item;
}

const counts = ({ count, unseen }) => (!unseen ? plural(count, "photo")
  : `${count ? `${plural(count, "photo")}, ` : ""}${unseen.toLocaleString("en")} from the model`);

const numberMark = () => make("span", { class: "number", "aria-hidden": "true" });

function renamingItem(one) {
  const input = make("input", { maxlength: "200", "aria-label": `New name of ${one.name}`, list: "class-names" });
  const button = make("button", { type: "submit" }, "OK");
  const other = () => state.classes.find((known) => known.id !== one.id && known.name === input.value.trim());
  input.value = one.name;
  input.addEventListener("input", () => { button.textContent = other() ? "Merge" : "OK"; });
  const done = () => { renaming = null; redraw(); };
  const form = make("form", { class: "rename", onsubmit: async (event) => {
    event.preventDefault();
    const into = other();
    const made = await attempt(() => post(`classes/${one.id}/name`, { name: input.value }));
    if (made === null) return;
    done();
    if (into) actions.merged(one, into);
  } }, input, button);
  input.addEventListener("keydown", (event) => event.key === "Escape" && done());
  setTimeout(() => { input.focus(); input.select(); });
  const number = numberMark();
  return { number, item: make("li", {}, number, form) };
}

function plainItem(one) {
  const number = numberMark(), fill = meter(0), figures = make("span", { class: "figures" });
  const burst = make("button", { type: "button", class: "burst", "aria-label": `Take photos of ${one.name}`, title: "Hold to take photos", hidden: !camera.running() }, "◉");
  camera.holds(burst, one.id);
  const rename = make("button", { type: "button", "aria-label": `Rename ${one.name}`, title: "Rename", onclick: () => { renaming = one.id; redraw(); } }, "✎");
  const remove = make("button", { type: "button", "aria-label": `Remove the class ${one.name}`, title: "Remove the class; its photos become unsorted", onclick: () => attempt(() => post(`classes/${one.id}/remove`)) }, "✕");
  const open = make("button", { type: "button", class: "open", onclick: () => actions.show({ belongs: one.id }) },
    make("span", { class: "name", title: one.name }, one.name), figures);
  const item = make("li", { draggable: "true" }, number, open, make("span", {}, burst, rename), remove, fill);
  item.addEventListener("dragstart", (event) => event.dataTransfer.setData(CLASS, String(one.id)));
  takesDrops(item, (taken) => (taken.class !== undefined ? merge(taken.class, one) : actions.dropped(taken, one.id)));
  return { item, number, open, figures, fill };
}

async function merge(number, into) {
  const other = state.classes.find((one) => one.id === number);
  if (!other || number === into.id) return;
  if (await attempt(() => post(`classes/${number}/merge`, { to: into.id })) !== null) actions.merged(other, into);
}

export function toldMerge(other, into) {
  tell(`${other.name} is merged into ${into.name}. Undo takes it apart again.`);
}
