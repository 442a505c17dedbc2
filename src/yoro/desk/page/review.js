// The review of label issues: one photo at a time, and those of its kind below; the list on disk is the state.

import { attempt, get, post } from "/studio/page/api.js";
import { at, make, percent, plural, tell } from "/studio/page/elements.js";

const KINDS = {
  "label": ["Probably wrong labels", "The model without the photo is sure of another class."],
  "hard photo": ["Hard photos", "Another class is a little more probable, but most of these labels are right."],
  "outlier": ["Outliers", "Unlike every class. Accept removes the photo."],
  "duplicate": ["Duplicates", "The same file again. Accept removes this one."],
  "near duplicate": ["Near duplicates", "Nearly the same picture. Accept removes this one."],
};
const DONE = { relabel: "moved", remove: "removed", keep: "kept" };
let state = null;
let kind = null;
let shown = 0; // the row on show
const picture = (row, like = false) => `/review/api/picture/${row}${like ? "?like=true" : ""}`;
const relabels = (row) => ["label", "hard photo"].includes(row.issue);
const rowsOf = (name) => state.rows.map((row, i) => ({ ...row, i })).filter((row) => row.issue === name);

async function refresh() {
  const found = await attempt(() => get("state"));
  if (!found) return;
  state = found;
  if (kind === null) {
    const first = state.rows.findIndex((row) => !row.action);
    go(first < 0 ? 0 : first);
  } else show();
}

function go(row) {
  shown = row;
  kind = state.rows[row].issue;
  at("proposed").value = state.rows[row].proposed;
  show();
}

function show() {
  const decided = state.rows.filter((row) => row.action);
  const changes = decided.filter((row) => row.action !== "keep").length;
  at("score").textContent = `${decided.length} of ${state.rows.length}`;
  at("score-text").textContent = state.applied ? "decided; the changes were made" : "decided";
  at("apply").hidden = state.applied;
  at("undo").hidden = !state.applied;
  at("apply").disabled = !changes;
  at("apply").textContent = changes ? `Apply ${plural(changes, "change")}` : "Apply";
  at("kinds").replaceChildren(...Object.keys(KINDS).filter((name) => rowsOf(name).length).map((name) => {
    const rows = rowsOf(name);
    const left = rows.filter((row) => !row.action).length;
    const button = make("button", { type: "button", onclick: () => go((rows.find((row) => !row.action) ?? rows[0]).i) },
      make("span", { class: "text" }, KINDS[name][0]), make("span", { class: "count" }, left ? `${left} of ${rows.length}` : "done"));
    return make("li", { class: name === kind ? "shown" : "" }, button);
  }));
  const count = rowsOf(kind).length;
  at("title").textContent = kind === "label" ? `About ${plural(count, "wrong label")}` : `${KINDS[kind][0]} (${count})`;
  at("about").textContent = KINDS[kind][1];
  at("names").replaceChildren(...state.classes.map((name) => make("option", { value: name })));
  showTile();
  showStrip();
}

function showTile() {
  const row = state.rows[shown];
  const [now, rather] = [make("b", {}, row.label), make("b", {}, row.proposed)];
  const sure = percent(Number(row.probability));
  at("told").replaceChildren(...(relabels(row) ? ["now ", now, ", rather ", rather, `, ${sure}`]
    : row.like ? ["now ", now, `, the same as ${row.like}`] : ["now ", now, ", unlike the others"]));
  at("file").textContent = row.path;
  at("another").hidden = !relabels(row);
  at("decided").textContent = row.action ? `Decided: ${DONE[row.action]}${row.action === "relabel" ? ` to ${row.proposed}` : ""}.` : "";
  const images = [make("img", { src: picture(shown), alt: row.path })];
  if (row.like) images.push(make("img", { src: picture(shown, true), alt: row.like }));
  at("pictures").replaceChildren(...images);
  for (const id of ["accept", "keep", "remove"]) at(id).disabled = state.applied;
  at("remove").hidden = !relabels(row);
}

function showStrip() {
  const rows = rowsOf(kind);
  const here = rows.findIndex((row) => row.i === shown);
  const start = Math.max(0, here - 12);
  at("strip").replaceChildren(...rows.slice(start, start + 60).map((row) =>
    make("li", {}, make("button", { type: "button", class: row.i === shown ? "shown" : "", onclick: () => go(row.i),
      "aria-current": row.i === shown ? "true" : null, "aria-label": `${row.path}: ${row.action ? DONE[row.action] : "undecided"}` },
    make("img", { src: picture(row.i), alt: "", loading: "lazy" }),
    make("span", { class: `mark ${row.action}` }, row.action ? DONE[row.action] : "")))));
}

// The next one without a decision, in the order of the list; without any, the next of all.
function next(by = 1) {
  const n = state.rows.length;
  const order = [...Array(n).keys()].map((i) => (((shown + by * (i + 1)) % n) + n) % n);
  go((by > 0 ? order.find((i) => !state.rows[i].action) : undefined) ?? order[0]);
}

async function decide(action, onward = true) {
  if (state.applied) return;
  const row = state.rows[shown];
  const given = { row: shown, action, proposed: action === "relabel" ? at("proposed").value.trim() : "" };
  const found = await attempt(() => post("decide", given));
  if (!found) return;
  tell("");
  state = found;
  if (onward && !state.rows.every((one) => one.action)) next();
  else show();
  if (onward && row.action === "" && state.rows.every((one) => one.action)) tell("All decided. Press Apply to make the changes.");
}

const accept = () => decide(relabels(state.rows[shown]) ? "relabel" : "remove");

async function finish(verb) {
  at("apply").disabled = true;
  const done = await attempt(() => post(verb));
  if (done) tell(done.told);
  await refresh();
}

document.addEventListener("keydown", (event) => {
  if (!state || at("keys").open || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.tagName === "INPUT") {
    if (event.key === "Enter") accept();
    if (["Enter", "Escape"].includes(event.key)) at("tile").focus();
    return;
  }
  const doing = { a: accept, k: () => decide("keep"), r: () => decide("remove"), z: () => decide("", false),
    n: () => next(), ArrowRight: () => next(), ArrowLeft: () => next(-1) }[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!doing) return;
  event.preventDefault();
  doing();
});

at("accept").addEventListener("click", accept);
at("keep").addEventListener("click", () => decide("keep"));
at("remove").addEventListener("click", () => decide("remove"));
at("next").addEventListener("click", () => next());
at("apply").addEventListener("click", () => finish("apply"));
at("undo").addEventListener("click", () => finish("undo"));
at("help").addEventListener("click", () => at("keys").showModal());
refresh();
