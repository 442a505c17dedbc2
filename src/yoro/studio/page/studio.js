// The page: a long poll waits for news from the studio, and the page shows them.

import { attempt, get, post } from "./api.js";
import * as camera from "./camera.js";
import { at, make, meter, percent, plural, tell } from "./elements.js";
import { add, chosen, openModel, takesDrops } from "./files.js";
import { Gallery, OUTLIERS, SUSPICIOUS, TWINS, UNREADABLE, UNSORTED } from "./gallery.js";
import * as trial from "./trial.js";

let state = null;
let renaming = null; // the class whose name is being written
let drawn = ""; // the classes that photos can be moved to
const gallery = new Gallery(() => {});
gallery.tried = (digest) => digest && trial.tryPhoto(digest);

// News

// A browser allows few connections to one server; a hidden page must not keep one.
let waiting = new AbortController();
document.addEventListener("visibilitychange", () => { if (document.hidden) waiting.abort(); });

function seen() {
  if (!document.hidden) return null;
  return new Promise((good) => document.addEventListener("visibilitychange", good, { once: true }));
}

async function follow() {
  let version = -1;
  for (;;) {
    await seen();
    waiting = new AbortController();
    try {
      const news = await get("state", { after: version }, waiting.signal);
      if (news.version === version) continue;
      const learned = ["settled", "revision", "choosing"].some((key) => state?.[key] !== news[key]);
      const before = state;
      version = news.version;
      state = news;
      draw();
      if (before === null) await begin();
      else if (learned) await gallery.refresh();
      if (learned && news.settled) { drawMatrix(); trial.again(); }
      else if (news.judged && before && !before.judged) { trial.again(); await gallery.refresh(); }
      drawEmpty();
    } catch (error) {
      if (error.name === "AbortError") continue;
      at("working-text").textContent = "The studio is not responding. Your work is saved; this page reconnects by itself.";
      version = -1;
      await new Promise((good) => setTimeout(good, 1500));
    }
  }
}

function begin() {
  const first = state.unsorted || !state.classes.length ? UNSORTED : state.classes[0].id;
  return show({ belongs: first });
}

async function show(view) {
  const shown = gallery.show(view);
  draw();
  await shown;
  drawEmpty();
}

// Drawing

function draw() {
  drawScore();
  drawClasses();
  for (const [id, what] of [["undo", state.undo], ["redo", state.redo]]) {
    at(id).disabled = !what;
    at(id).setAttribute("aria-label", what ? `${id === "undo" ? "Undo" : "Redo"}: ${what}` : id);
    at(id).title = what ?? "";
  }
  at("downloads").hidden = at("confusion").hidden = !state.learned;
  document.body.classList.toggle("learned", state.learned);
  const reading = state.read < state.photos;
  at("progress").hidden = !reading;
  at("progress").max = Math.max(state.photos, 1);
  at("progress").value = state.read;
  at("working-text").textContent = reading ? `Processing photos: ${state.read} of ${state.photos}`
    : state.settled || state.photos === 0 ? "" : state.choosing ? "Refining…" : "Learning…";
}

function drawScore() {
  if (state.accuracy === null) {
    at("accuracy").textContent = "–";
    at("score-text").textContent = state.photos ? state.said || "No classifier yet" : "No classifier yet";
  } else {
    const [low, high] = state.interval;
    at("accuracy").textContent = percent(state.accuracy);
    at("score-text").textContent = `of ${plural(state.measured, "photo")} right, each left out of training (95\u00a0% interval: ${percent(low)} to ${percent(high)})`;
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

function drawClasses() {
  arrange(at("classes"), state.classes.map(classItem));
  const counts = { [UNSORTED]: state.unsorted, [SUSPICIOUS]: state.suspicious, [OUTLIERS]: state.outliers, [TWINS]: state.twins, [UNREADABLE]: state.unreadable };
  const always = state.learned ? [UNSORTED, SUSPICIOUS] : [UNSORTED]; // the others while they hold something
  const lists = LISTS.filter((id) => always.includes(id) || counts[id] || gallery.view.belongs === id);
  arrange(at("lists"), lists.map((id) => listItem([id, TITLES[id], counts[id]])));
  const names = JSON.stringify(state.classes.map((one) => [one.id, one.name]));
  if (names !== drawn) {
    drawn = names;
    at("move-to").replaceChildren(make("option", { value: "" }, "Move to…"),
      ...state.classes.map((one) => make("option", { value: one.id }, one.name)),
      make("option", { value: UNSORTED }, "Unsorted"));
  }
  const needs = state.classes.find((one) => one.id === state.needs);
  at("needs").textContent = needs && state.learned && state.classes.length > 1 ? `Adding photos would help most for: ${needs.name}.` : "";
  at("gallery-title").textContent = title();
  at("model").hidden = !state.model;
  if (state.model) {
    at("model").textContent = `Started from the model ${state.model.name}` + (state.model.unseen
      ? `. ${plural(state.model.unseen, "photo")} of it cannot be shown, because a model does not contain its photos. Add them to see them; none is counted twice.` : ".");
  }
}

const LISTS = [UNSORTED, SUSPICIOUS, OUTLIERS, TWINS, UNREADABLE];
const TITLES = {
  [UNSORTED]: "Unsorted", [SUSPICIOUS]: "Suspicious labels", [UNREADABLE]: "Cannot be read",
  [OUTLIERS]: "Outliers", [TWINS]: "Near duplicates",
};

function title() {
  const view = gallery.view;
  if (view.truth !== undefined) return `${view.truth}, classified as ${view.answer}`;
  if (view.belongs in TITLES) return TITLES[view.belongs];
  return state.classes.find((one) => one.id === view.belongs)?.name ?? "Photos";
}

// Items are kept from one drawing to the next: a button that is held or pressed must not be replaced meanwhile.
const items = new Map();

function classItem(one, place) {
  const key = JSON.stringify([one.id, one.name, renaming === one.id]);
  if (items.get(one.id)?.key !== key) items.set(one.id, { key, ...(renaming === one.id ? renamingItem(one) : plainItem(one)) });
  const { item, number, open, figures, fill } = items.get(one.id);
  const here = gallery.view.belongs === one.id && gallery.view.truth === undefined;
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
  const input = make("input", { maxlength: "200", "aria-label": `New name of ${one.name}` });
  input.value = one.name;
  const done = () => { renaming = null; drawClasses(); };
  const form = make("form", { class: "rename", onsubmit: async (event) => {
    event.preventDefault();
    if (await attempt(() => post(`classes/${one.id}/name`, { name: input.value })) !== null) done();
  } }, input, make("button", { type: "submit" }, "OK"));
  input.addEventListener("keydown", (event) => event.key === "Escape" && done());
  setTimeout(() => { input.focus(); input.select(); });
  const number = numberMark();
  return { number, item: make("li", {}, number, form) };
}

function plainItem(one) {
  const number = numberMark(), fill = meter(0), figures = make("span", { class: "figures" });
  const burst = make("button", { type: "button", class: "burst", "aria-label": `Take photos of ${one.name}`, title: "Hold to take photos", hidden: !camera.running() }, "◉");
  camera.holds(burst, one.id);
  const rename = make("button", { type: "button", "aria-label": `Rename ${one.name}`, title: "Rename", onclick: () => { renaming = one.id; drawClasses(); } }, "✎");
  const remove = make("button", { type: "button", "aria-label": `Remove the class ${one.name}`, title: "Remove the class; its photos become unsorted", onclick: () => attempt(() => post(`classes/${one.id}/remove`)) }, "✕");
  const open = make("button", { type: "button", class: "open", onclick: () => show({ belongs: one.id }) },
    make("span", { class: "name" }, one.name), figures);
  const item = make("li", {}, number, open, make("span", {}, burst, rename), remove, fill);
  takesDrops(item, ({ files, photos }) => (photos ? gallery.move(one.id, photos) : add(files, one.id)));
  return { item, number, open, figures, fill };
}

// Put children into a list without touching those that are in their place already.
function arrange(list, wanted) {
  wanted.forEach((child, i) => { if (list.children[i] !== child) list.insertBefore(child, list.children[i] ?? null); });
  while (list.children.length > wanted.length) list.lastChild.remove();
}

function listItem([id, name, count]) {
  if (!items.has(id)) {
    const open = make("button", { type: "button", onclick: () => show({ belongs: id }) },
      make("span", {}, name), make("span", { class: "count" }));
    const item = make("li", {}, open);
    if (id === UNSORTED) takesDrops(item, ({ files, photos }) => (photos ? gallery.move(UNSORTED, photos) : add(files, UNSORTED)));
    items.set(id, { item, open });
  }
  const { item, open } = items.get(id);
  const here = gallery.view.belongs === id && gallery.view.truth === undefined;
  item.className = here ? "shown" : "";
  if (here) open.setAttribute("aria-current", "true");
  else open.removeAttribute("aria-current");
  open.lastChild.textContent = String(count);
  return item;
}

function drawEmpty() {
  const empty = gallery.total === 0, view = gallery.view;
  at("empty").hidden = !empty;
  if (!empty) return;
  const none = state.photos === 0 && !state.classes.length;
  const unseen = state.classes.find((one) => one.id === view.belongs)?.unseen;
  const wrong = view.belongs < 0 || view.truth !== undefined;
  const sound = { [OUTLIERS]: "No photo stands out from the others.", [TWINS]: "No two photos are nearly the same." };
  at("empty-title").textContent = none ? "Name two classes, then drop photos"
    : wrong ? "Nothing here" : unseen ? `${plural(unseen, "image")} from the model` : view.belongs === UNSORTED ? "No unsorted photos" : "No photos yet";
  at("empty-text").textContent = none ? "Or drop a folder or zip file with one folder per class."
    : unseen ? "The model contains what it learned from them, not the photos. Add the photos to see them."
    : wrong ? sound[view.belongs] ?? "No label looks wrong."
      : view.belongs === UNSORTED ? "Drop photos here to label them later." : "Drop photos here, paste them, or use the camera.";
}

async function drawMatrix() {
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
      onclick: () => show({ truth: found.classes[i], answer: found.classes[j] }),
    }, String(count))))));
  at("matrix").replaceChildren(make("caption", { class: "hidden" }, "Rows are labels, columns are predictions"),
    make("thead", {}, head), make("tbody", {}, ...rows));
}

// Actions

const target = () => (gallery.view.truth === undefined && gallery.view.belongs >= 0 ? gallery.view.belongs : UNSORTED);
const undo = () => attempt(() => post("undo"));
const redo = () => attempt(() => post("redo"));

function setUp() {
  at("new-class").addEventListener("submit", async (event) => {
    event.preventDefault();
    const name = at("new-name").value;
    const made = await attempt(() => post("classes", { name }));
    if (made === null) return;
    at("new-name").value = "";
    await show({ belongs: made.id });
  });
  at("undo").addEventListener("click", undo);
  at("redo").addEventListener("click", redo);
  at("help").addEventListener("click", () => at("keys").showModal());
  at("pick").addEventListener("click", () => at("files").click());
  at("pick-folder").addEventListener("click", () => at("folder").click());
  at("pick-model").addEventListener("click", () => at("model-file").click());
  at("model-file").addEventListener("change", async () => { const files = chosen(at("model-file").files); at("model-file").value = ""; if (files.length) await openModel(files); });
  at("files").addEventListener("change", async () => { const files = chosen(at("files").files); at("files").value = ""; await add(files, target() || null); });
  at("folder").addEventListener("change", async () => { const files = chosen(at("folder").files); at("folder").value = ""; await add(files, null); });
  at("remove").addEventListener("click", () => gallery.remove());
  at("move-to").addEventListener("change", () => { const to = at("move-to").value; at("move-to").value = ""; if (to !== "") gallery.move(Number(to)); });
  at("confusion").addEventListener("toggle", drawMatrix);
  takesDrops(document.body, ({ files, photos }) => { if (!photos) add(files, target() || null); });
  document.addEventListener("paste", (event) => {
    const files = [...event.clipboardData.files];
    if (!files.length || event.target.closest("input")) return;
    event.preventDefault();
    if (at("trial").contains(document.activeElement)) trial.tryImage(files[0]);
    else add(files.map((file) => ({ file, path: file.name })), target());
  });
  document.addEventListener("keydown", (event) => {
    if (event.target.closest("input, select, textarea, dialog")) return;
    const control = event.ctrlKey || event.metaKey;
    if (control && event.key.toLowerCase() === "z") { (event.shiftKey ? redo : undo)(); event.preventDefault(); }
    else if (control && event.key.toLowerCase() === "y") { redo(); event.preventDefault(); }
    else if (state && gallery.key(event, state.classes)) event.preventDefault();
  });
  document.addEventListener("click", (event) => { if (!at("downloads").contains(event.target)) at("downloads").open = false; });
  for (const link of at("downloads").querySelectorAll("a")) {
    link.addEventListener("click", () => tell(state.settled ? "" : "The download starts once all photos are learned."));
  }
  at("web").addEventListener("click", async (event) => {
    event.preventDefault(); // a missing runtime is reported here, not by a broken download
    if (await attempt(() => get("web"))) location.assign(at("web").href);
  });
}

setUp();
trial.setUp();
camera.setUp();
follow();
