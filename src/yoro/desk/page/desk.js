// The desk: lists on the left, the photos of one of them in the middle; the server holds the state.

import { attempt, get, post } from "/studio/page/api.js";
import { at, make, percent, plural, tell, unsure } from "/studio/page/elements.js";

const WAIT = 1000; // milliseconds between two looks at what is being learnt
let state = null;
let place = null; // the list that is open: { kind, key }
let photos = [];
let total = 0;
let busy = false;
let waiting;
const selected = new Set();
const small = (row) => `/desk/api/small/${row}`;
const same = (one, two) => one && two && one.kind === two.kind && String(one.key) === String(two.key);

async function refresh(reload = true) {
  const found = await attempt(() => get("state"));
  if (!found) return;
  state = found;
  const open = lists().some((one) => same(one, place));
  if (!open) place = lists()[0] ?? { kind: "rest", key: "" };
  show();
  if (reload || !open) await load();
  clearTimeout(waiting);
  if (state.learning) waiting = setTimeout(() => refresh(place.kind === "ask" && !selected.size), WAIT);
}

async function load(more = false) {
  const [offset, asking] = [more ? photos.length : 0, place];
  const found = await attempt(() => get("photos", { ...asking, offset }));
  if (!found || !same(asking, place)) return;
  if (!more) { photos = []; selected.clear(); }
  photos.push(...found.photos);
  total = found.total;
  showPhotos();
}

// All lists that can be open, in the order in which they are worked off.
function lists() {
  if (!state) return [];
  return [
    ...state.groups.map((one) => ({ kind: "group", key: one.group })),
    ...state.check.map((one) => ({ kind: "check", key: one.label })),
    ...(state.rest ? [{ kind: "ask", key: "" }] : []),
    ...state.classes.map((one) => ({ kind: "class", key: one.label })),
    ...(state.rest ? [{ kind: "rest", key: "" }] : []),
    ...(state.out ? [{ kind: "out", key: "" }] : []),
  ];
}

async function open(next) {
  [place, photos, total] = [next, [], 0];
  selected.clear();
  at("gallery").replaceChildren();
  show();
  await load();
  at("gallery").querySelector("li")?.focus();
}

function entry(where, text, count, covers = []) {
  const images = covers.map((row) => make("img", { src: small(row), alt: "", loading: "lazy" }));
  const button = make("button", { type: "button", onclick: () => open(where) }, ...images,
    make("span", { class: "text" }, text), make("span", { class: "count" }, count));
  return make("li", { class: same(where, place) ? "shown" : "" }, button);
}

function show() {
  at("score").textContent = `${state.labelled.toLocaleString("en")} of ${state.photos.toLocaleString("en")}`;
  at("score-text").textContent = `labelled in ${plural(state.decisions, "decision")}`;
  at("working").hidden = !state.learning;
  for (const verb of ["undo", "redo"]) {
    at(verb).disabled = !state[verb];
    at(verb).title = state[verb] ?? "";
  }
  at("groups").replaceChildren(...state.groups.map((one) =>
    entry({ kind: "group", key: one.group }, `Group ${one.group}`, String(one.count), one.covers)));
  at("regroup").hidden = state.rest < 2;
  at("checks").replaceChildren(...state.check.map((one) =>
    entry({ kind: "check", key: one.label }, one.label, `${one.count}, ${Math.round(one.wrong)} wrong?`)),
    ...(state.rest ? [entry({ kind: "ask", key: "" }, "Questions", "most useful")] : []));
  at("check-hint").hidden = state.check.length > 0;
  at("classes-named").replaceChildren(...state.classes.map((one) =>
    entry({ kind: "class", key: one.label }, one.label, String(one.count))));
  at("others").replaceChildren(
    ...(state.rest ? [entry({ kind: "rest", key: "" }, "Without a label", String(state.rest))] : []),
    ...(state.out ? [entry({ kind: "out", key: "" }, "Left out", String(state.out))] : []));
  at("names").replaceChildren(...state.classes.map((one) => make("option", { value: one.label })));
  at("accepting").hidden = state.expected === null;
  at("accept-hint").textContent = state.sure.length || state.expected === null
    ? "Accepted without looking at each photo. Name every class first: a class without a name is never proposed." : unsure(state.expected);
  at("sure").replaceChildren(...state.sure.map((one) =>
    make("button", { type: "button", onclick: () => step("accept", { rows: one.rows }) },
      `Accept ${plural(one.rows.length, "photo")}, expected to be right: ${percent(one.expected)}`)));
  showTitle();
}

function showTitle() {
  const titles = { group: `Group ${place.key}`, check: `Proposed: ${place.key}`, ask: "Questions: what is this?",
    class: String(place.key), rest: "Without a label", out: "Left out" };
  at("title").textContent = `${titles[place.kind]} (${plural(total, "photo")})`;
  at("selection").textContent = selected.size ? `${selected.size} selected` : "";
  const group = place.kind === "group";
  at("apply").textContent = { check: "Confirm", ask: "Label" }[place.kind] ?? (group ? "Name" : "Label the selected");
  at("split").hidden = at("join").hidden = !group;
  at("throw").hidden = ["rest", "out", "ask"].includes(place.kind);
  at("throw").disabled = at("out").disabled = !selected.size;
  at("name").placeholder = place.kind === "check" ? place.key : place.kind === "ask" ? asked()?.label ?? "Name of the class" : "Name of the class";
  const others = group ? state.groups.filter((one) => one.group !== place.key) : [];
  at("join").replaceChildren(make("option", { value: "" }, "Join with …"),
    ...others.map((one) => make("option", { value: one.group }, `Group ${one.group} (${one.count})`)));
}

function showPhotos() {
  const empty = photos.length === 0;
  at("empty").hidden = !empty;
  if (empty) {
    const done = state.labelled + state.out === state.photos;
    at("empty-title").textContent = done ? "Every photo has a label." : "Nothing here.";
    at("empty-text").textContent = done ? "Write the result, or look through the classes once more." : "Choose a list on the left.";
  }
  at("gallery").replaceChildren(...photos.map((photo, i) => {
    const told = photo.chance === null ? "" : `${percent(photo.chance)} ${photo.label}`;
    return make("li", { role: "option", tabindex: i ? "-1" : "0", "aria-selected": String(selected.has(photo.row)),
      "aria-label": photo.name, title: photo.name, onclick: () => toggle(i) },
      make("img", { src: small(photo.row), alt: photo.name, loading: "lazy" }), make("span", { class: "guess" }, told));
  }));
  at("more").hidden = photos.length >= total;
  showTitle();
}

function toggle(i) {
  const row = photos[i].row;
  if (place.kind === "ask" && !selected.has(row)) {
    for (const item of at("gallery").children) item.setAttribute("aria-selected", "false");
    selected.clear();
  }
  if (selected.has(row)) selected.delete(row); else selected.add(row);
  const item = at("gallery").children[i];
  item.setAttribute("aria-selected", String(selected.has(row)));
  item.focus();
  showTitle();
}

async function step(verb, body = {}) {
  const done = await attempt(() => post(`step/${verb}`, body));
  if (done) await refresh();
  return done;
}

// Several decisions that belong together, one after the other.
async function steps(...each) {
  if (busy) return;
  busy = true;
  try {
    for (const [verb, body] of each) {
      if (!await attempt(() => post(`step/${verb}`, body))) break;
    }
    await refresh();
  } finally {
    busy = false;
  }
}

const asked = () => photos.find((photo) => selected.has(photo.row)) ?? photos[0];

async function apply() {
  const label = at("name").value.trim();
  const strangers = [...selected];
  if (place.kind === "check") {
    const kept = photos.filter((photo) => !selected.has(photo.row)).map((photo) => photo.row);
    await steps(...(strangers.length ? [["refuse", { rows: strangers }]] : []),
      ...(kept.length ? [["label", { rows: kept, label: label || place.key }]] : []));
  } else if (place.kind === "ask") {
    const photo = asked();
    if (photo && (label || photo.label)) await steps(["label", { rows: [photo.row], label: label || photo.label }]);
  } else if (!label) {
    at("name").focus();
    return;
  } else if (place.kind === "group") {
    await steps(["name", { group: place.key, label }],
      ...(strangers.length ? [["throw-out", { group: place.key, rows: strangers }]] : []));
  } else if (strangers.length) {
    await steps(["label", { rows: strangers, label }]);
  } else {
    tell("Select the photos that this label is for.");
  }
  at("name").value = "";
  if (place.kind !== "ask") at("gallery").querySelector("li")?.focus();
}

function throwOut() {
  const rows = [...selected];
  if (!rows.length || at("throw").hidden) return;
  if (place.kind === "group") steps(["throw-out", { group: place.key, rows }]);
  else steps(["refuse", { rows }]);
}

function leaveOut() {
  if (selected.size) steps(["leave-out", { rows: [...selected] }]);
}

function move(by) {
  const items = [...at("gallery").children];
  const now = items.indexOf(document.activeElement);
  items[Math.max(0, Math.min(items.length - 1, now + by))]?.focus();
}

function across() {
  const items = [...at("gallery").children];
  return Math.max(1, items.filter((item) => item.offsetTop === items[0].offsetTop).length);
}

function turn(by) {
  const all = lists();
  const next = all[all.findIndex((one) => same(one, place)) + by];
  if (next) open(next);
}

document.addEventListener("keydown", (event) => {
  if (at("keys").open) return;
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z" && event.target.tagName !== "INPUT") {
    event.preventDefault();
    step(event.shiftKey ? "redo" : "undo");
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    if (event.target.id === "name") at("gallery").querySelector("li")?.focus();
    else { selected.clear(); showPhotos(); }
    return;
  }
  if (["INPUT", "SELECT"].includes(event.target.tagName)) return;
  const doing = {
    n: () => at("name").focus(), x: throwOut, o: leaveOut, "]": () => turn(1), "[": () => turn(-1),
    c: () => place.kind === "check" && apply(), s: () => place.kind === "group" && steps(["split", { group: place.key }]),
    ArrowRight: () => move(1), ArrowLeft: () => move(-1), ArrowDown: () => move(across()), ArrowUp: () => move(-across()),
    " ": () => { const i = [...at("gallery").children].indexOf(document.activeElement); if (i >= 0) toggle(i); return i >= 0; },
  }[event.key];
  if (!doing) return;
  if (event.key === " " && event.target.tagName === "BUTTON") return;
  event.preventDefault();
  doing();
});

at("naming").addEventListener("submit", (event) => { event.preventDefault(); apply(); });
at("throw").addEventListener("click", throwOut);
at("out").addEventListener("click", leaveOut);
at("split").addEventListener("click", () => steps(["split", { group: place.key }]));
at("join").addEventListener("change", (event) => event.target.value && steps(["join", { group: place.key, other: Number(event.target.value) }]));
at("regroup").addEventListener("click", () => step("regroup"));
at("undo").addEventListener("click", () => step("undo"));
at("redo").addEventListener("click", () => step("redo"));
at("help").addEventListener("click", () => at("keys").showModal());
at("more").addEventListener("click", () => load(true));
at("write").addEventListener("click", async () => {
  const done = await attempt(() => post("write"));
  if (done) tell(done.told);
});
refresh();
