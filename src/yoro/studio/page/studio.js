// The page: a long poll waits for news from the studio, and the page shows them.

import { attempt, get, post } from "./api.js";
import * as camera from "./camera.js";
import * as classes from "./classes.js";
import * as downloads from "./downloads.js";
import { arrange, at, make, percent, plural, tell } from "./elements.js";
import { add, chosen, openModel, takesDrops } from "./files.js";
import { Gallery, HARD, OUTLIERS, SUSPICIOUS, TESTS, TWINS, UNREADABLE, UNSORTED } from "./gallery.js";
import * as guide from "./guide.js";
import { drawMatrix } from "./matrix.js";
import * as queue from "./queue.js";
import * as review from "./review.js";
import { drawScore } from "./score.js";
import * as tabs from "./tabs.js";
import * as tray from "./tray.js";
import * as trial from "./trial.js";

let state = null;
let drawn = ""; // the classes that photos can be moved to
let answering = true; // whether the studio did, when it was last asked
let goal = null; // the class that chosen files go to, if it is not the one on show
let aside = false; // whether a chosen folder is for the test set
const gallery = new Gallery(() => {});
gallery.tried = (digest) => { if (digest) { tabs.show("trial"); trial.tryPhoto(digest); } };
gallery.classes = () => state.classes;

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
      answering = true;
      if (news.version === version) continue;
      version = news.version;
      await heard(news);
    } catch (error) {
      if (error.name === "AbortError") continue;
      version = -1;
      answering = false;
      if (state) draw();
      else drawWorking();
      await new Promise((good) => setTimeout(good, 1500));
    }
  }
}

async function heard(news) {
  const before = state, learned = ["settled", "revision", "choosing"].some((key) => before?.[key] !== news[key]);
  state = news;
  queue.begin(news.work, news.photos);
  const first = before && !before.classes.length && state.classes.length && state.photos > before.photos; // a folder
  const gone = gallery.view.belongs > UNSORTED && !state.classes.some((one) => one.id === gallery.view.belongs);
  draw();
  if (before === null || gone || first) await begin();
  else if (learned) await gallery.refresh();
  if (learned && news.settled) { matrix(); trial.again(); }
  else if (news.judged && before && !before.judged) { trial.again(); await gallery.refresh(); }
  drawEmpty();
  if (learned) drawTray();
}

function begin() {
  const first = state.unsorted || !state.classes.length ? UNSORTED : state.classes[0].id;
  return show({ belongs: first }, false);
}

async function show(view, chosen = true) {
  const shown = gallery.show(view);
  draw();
  if (chosen) tabs.show("centre");
  await shown;
  drawEmpty();
  drawTray();
}

const matrix = () => drawMatrix((truth, answer) => show({ truth, answer }));

// Drawing

function draw() {
  if (!state) return;
  drawScore(state);
  drawClasses();
  for (const [id, what] of [["undo", state.undo], ["redo", state.redo]]) {
    at(id).disabled = !what;
    at(id).setAttribute("aria-label", what ? `${id === "undo" ? "Undo" : "Redo"}: ${what}` : id);
    at(id).title = what ?? "";
  }
  at("downloads").hidden = at("confusion").hidden = !state.learned;
  at("test-report").hidden = !state.tested.measured;
  at("phone").hidden = !state.phone;
  document.body.classList.toggle("learned", state.learned);
  drawWorking();
  guide.draw(state, answering ? queue.status() : "no answer", trial.tries > 0, does);
}

// Photos that are still to be sent count from the beginning.
function drawWorking() {
  at("progress").hidden = true;
  if (!answering) {
    at("working-text").textContent = "The studio is not responding. "
      + (queue.unsent() ? "This page keeps what it has not sent." : "What it has received is saved.");
    return;
  }
  const total = queue.unsent() ? Math.max(queue.expected(), state.photos) : state.photos, reading = state.read < total;
  at("progress").hidden = !reading;
  at("progress").max = Math.max(total, 1);
  at("progress").value = state.read;
  at("working-text").textContent = reading ? `Processing photos: ${state.read} of ${total}`
    : state.settled || state.photos === 0 ? "" : state.choosing ? "Refining…" : "Learning…";
}

const LISTS = [UNSORTED, SUSPICIOUS, HARD, OUTLIERS, TWINS, UNREADABLE, TESTS];
const TITLES = {
  [UNSORTED]: "Unsorted", [SUSPICIOUS]: "Suspicious labels", [HARD]: "Hard photos", [UNREADABLE]: "Cannot be read",
  [OUTLIERS]: "Outliers", [TWINS]: "Near duplicates", [TESTS]: "Test set",
};
const ABOUT = {
  [OUTLIERS]: "Photos that are unlike all others.", [TWINS]: "Photos that are nearly the same, next to each other.",
  [UNSORTED]: "Photos without a class; nothing is learned from them.",
};

function drawClasses() {
  classes.draw(state, gallery.view);
  const counts = {
    [UNSORTED]: state.unsorted, [SUSPICIOUS]: state.suspicious, [HARD]: state.hard, [OUTLIERS]: state.outliers,
    [TWINS]: state.twins, [UNREADABLE]: state.unreadable, [TESTS]: state.tests,
  };
  const always = state.learned ? [UNSORTED, SUSPICIOUS, TESTS] : [UNSORTED]; // the others while they hold something
  const lists = LISTS.filter((id) => always.includes(id) || counts[id] || gallery.view.belongs === id);
  arrange(at("lists"), lists.map((id) => listItem([id, TITLES[id], counts[id]])));
  const names = JSON.stringify(state.classes.map((one) => [one.id, one.name]));
  if (names !== drawn) {
    drawn = names;
    at("move-to").replaceChildren(make("option", { value: "" }, "Move to…"),
      ...state.classes.map((one) => make("option", { value: one.id }, one.name)),
      make("option", { value: UNSORTED }, "Unsorted"));
    at("class-names").replaceChildren(...state.classes.map((one) => make("option", { value: one.name })));
  }
  const needs = state.classes.find((one) => one.id === state.needs);
  at("needs").textContent = needs && state.learned && state.classes.length > 1 ? `Adding photos would help most for: ${needs.name}.` : "";
  at("gallery-title").textContent = title();
  at("gallery-about").textContent = about();
  at("pick").hidden = gallery.view.truth !== undefined || (gallery.view.belongs < UNSORTED && !testing());
  at("pick").textContent = testing() ? "Add a test folder…" : "Add photos…";
  at("test-share").hidden = !testing() || !state.learned;
  at("model").hidden = !state.model;
  if (state.model) {
    at("model").textContent = `Started from the model ${state.model.name}` + (state.model.unseen
      ? `. ${plural(state.model.unseen, "photo")} of it cannot be shown, because a model does not contain its photos. Add them to see them; none is counted twice.` : ".");
  }
}

function title() {
  const view = gallery.view;
  if (view.truth !== undefined) return `${view.truth}, mistaken for ${view.answer}`;
  if (view.belongs in TITLES) return TITLES[view.belongs];
  return state.classes.find((one) => one.id === view.belongs)?.name ?? "Photos";
}

function about() {
  const { belongs, truth } = gallery.view;
  if (truth !== undefined) return "";
  if (belongs === SUSPICIOUS || belongs === HARD) return review.about(state, belongs === HARD);
  if (belongs !== TESTS) return gallery.total ? ABOUT[belongs] ?? "" : "";
  const { measured, right } = state.tested;
  return "Photos that are never learned from, to test with."
    + (measured ? ` ${right} of ${plural(measured, "photo")} right.` : "");
}

const items = new Map(); // of the lists

function listItem([id, name, count]) {
  if (!items.has(id)) {
    const open = make("button", { type: "button", onclick: () => show({ belongs: id }) },
      make("span", {}, name), make("span", { class: "count" }));
    const item = make("li", {}, open);
    if (id === UNSORTED) takesDrops(item, (taken) => dropped(taken, UNSORTED));
    if (id === TESTS) takesDrops(item, ({ files, photos }) => (photos ? gallery.putAside(photos, true) : files && add(files, null, true)));
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
  at("gallery-about").textContent = about();
  if (!empty) return;
  const none = state.photos === 0 && !state.classes.length;
  const unseen = state.classes.find((one) => one.id === view.belongs)?.unseen;
  const wrong = view.belongs < 0 || view.truth !== undefined;
  const sound = {
    [OUTLIERS]: "No photo stands out from the others.", [TWINS]: "No two photos are nearly the same.",
    [TESTS]: "Keep a fifth of every class with the button above, drop a folder with one folder per class, or drag photos of a class onto Test set.",
  };
  at("empty-title").textContent = none ? "Name two classes, then drop photos"
    : wrong ? "Nothing here" : unseen ? `${plural(unseen, "image")} from the model` : view.belongs === UNSORTED ? "No unsorted photos" : "No photos yet";
  at("empty-text").textContent = none ? "Or drop a folder or zip file with one folder per class."
    : unseen ? "The model contains what it learned from them, not the photos. Add the photos to see them."
    : wrong ? sound[view.belongs] ?? "No label looks wrong."
      : view.belongs === UNSORTED ? "Drop photos here to label them later." : "Drop photos here, paste them, or use the camera.";
}

// Unsorted photos can be shown in groups that look alike.
let grouping = false;
function drawTray() {
  const unsorted = gallery.view.belongs === UNSORTED && gallery.view.truth === undefined;
  at("group").hidden = !unsorted || gallery.total < 2;
  at("group").setAttribute("aria-pressed", String(grouping));
  const shown = grouping && unsorted && gallery.total > 0;
  at("gallery").hidden = shown;
  if (shown) { at("more").hidden = true; tray.show(state); } else tray.hide();
}

// Actions

const testing = () => gallery.view.belongs === TESTS && gallery.view.truth === undefined;
const target = () => (gallery.view.truth === undefined && gallery.view.belongs >= 0 ? gallery.view.belongs : UNSORTED);
const undo = () => attempt(() => post("undo"));
const redo = () => attempt(() => post("redo"));

function dropped({ files, photos }, belongs) {
  if (photos) gallery.move(belongs, photos);
  else if (files) add(files, belongs);
}

// What the buttons of the guide do.
const does = {
  name: () => { tabs.show("side"); at("new-name").focus(); },
  add: (number) => { goal = number; show({ belongs: number }); at("files").click(); },
  try: () => { tabs.show("trial"); at("try-file").click(); },
  send: queue.sendAll,
  tray: async () => { grouping = true; await show({ belongs: UNSORTED }); },
  review: () => show({ belongs: SUSPICIOUS }),
  download: () => { at("downloads").open = true; at("downloads").querySelector("a").focus(); },
};

function setUp() {
  at("new-class").addEventListener("submit", async (event) => {
    event.preventDefault();
    const name = at("new-name").value;
    const made = await attempt(() => post("classes", { name }));
    if (made === null) return;
    at("new-name").value = "";
    at("find-class").value = "";
    await show({ belongs: made.id }, false);
  });
  at("undo").addEventListener("click", undo);
  at("redo").addEventListener("click", redo);
  at("help").addEventListener("click", () => at("keys").showModal());
  at("pick").addEventListener("click", () => { goal = null; aside = testing(); at(aside ? "folder" : "files").click(); });
  at("pick-folder").addEventListener("click", () => { aside = false; at("folder").click(); });
  at("pick-model").addEventListener("click", () => at("model-file").click());
  at("model-file").addEventListener("change", async () => { const files = chosen(at("model-file").files); at("model-file").value = ""; if (files.length) await openModel(files); });
  at("files").addEventListener("change", async () => { const files = chosen(at("files").files); at("files").value = ""; const to = goal ?? target(); goal = null; await add(files, to || null); });
  at("folder").addEventListener("change", async () => { const files = chosen(at("folder").files); at("folder").value = ""; await add(files, null, aside); });
  at("remove").addEventListener("click", () => gallery.remove());
  at("aside").addEventListener("click", () => gallery.putAside());
  at("test-share").addEventListener("click", () => attempt(() => post("aside-share", { share: 0.2 })));
  at("group").addEventListener("click", () => { grouping = !grouping; drawTray(); gallery.refresh().then(drawTray); });
  at("move-to").addEventListener("change", () => { const to = at("move-to").value; at("move-to").value = ""; if (to !== "") gallery.move(Number(to)); });
  at("confusion").addEventListener("toggle", matrix);
  takesDrops(document.body, ({ files }) => { if (files) add(files, target() || null, testing()); });
  document.addEventListener("paste", (event) => {
    const files = [...event.clipboardData.files];
    if (!files.length || event.target.closest("input")) return;
    event.preventDefault();
    if (at("trial").contains(document.activeElement)) trial.tryImage(files[0]);
    else add(files.map((file) => ({ file, path: file.name })), target(), testing());
  });
  document.addEventListener("keydown", (event) => {
    if (event.target.closest("input, select, textarea, dialog")) return;
    const control = event.ctrlKey || event.metaKey;
    if (control && event.key.toLowerCase() === "z") { (event.shiftKey ? redo : undo)(); event.preventDefault(); }
    else if (control && event.key.toLowerCase() === "y") { redo(); event.preventDefault(); }
    else if (state && gallery.key(event, classes.listed())) event.preventDefault();
  });
}

setUp();
tabs.setUp();
classes.setUp({ show, dropped, merged: classes.toldMerge });
guide.setUp(draw);
queue.setUp(() => state && draw());
trial.setUp(draw);
camera.setUp();
downloads.setUp();
follow();
