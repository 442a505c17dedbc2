// Files that the studio has not received yet. The browser keeps them, so that they can be sent again after a crash.

import { reason, send } from "./api.js";
import { at, make, plural, tell } from "./elements.js";

export const ARCHIVE = /\.(zip|tar|tgz|tar\.gz|tbz2|tar\.bz2)$/i;
const MOST_FILES = 16, MOST_BYTES = 24 * 2 ** 20; // of one request
const MOST_KEPT = 2 ** 30; // bytes that the browser stores; beyond, files wait in the page only
const BASE = "yoro-studio", STORE = "unsent";

let pending = []; // { id, work, file, name, query }
let total = 0; // files since there was nothing to send
let here = 0; // photos that the studio had then
let sending = null, failed = false; // what sends, while it does
let work = null; // the work folder that they are meant for
let came = null;

export const unsent = () => pending.length;
export const status = () => (sending ? "busy" : failed && pending.length ? "stuck" : "idle");

// How many photos there will be; known before the first is sent.
export const expected = () => here + total;

// The browser's own store; where it has none, files wait in the page.
let opened = null;
function base() {
  opened ??= new Promise((good) => {
    const asked = indexedDB.open(BASE, 1);
    asked.onupgradeneeded = () => asked.result.createObjectStore(STORE, { keyPath: "id" });
    asked.onsuccess = () => good(asked.result);
    asked.onerror = () => good(null);
  });
  return opened;
}

async function stored(doing) {
  const found = await base();
  if (!found) return null;
  return new Promise((good) => {
    const change = found.transaction(STORE, "readwrite"), asked = doing(change.objectStore(STORE));
    change.oncomplete = () => good(asked?.result ?? null);
    change.onerror = change.onabort = () => good(null);
  });
}

// Begin with what an earlier page could not send to this work folder.
export async function begin(folder, photos) {
  if (!pending.length) here = photos;
  if (work !== null) return;
  work = folder;
  addEventListener("beforeunload", (event) => { if (pending.length) event.preventDefault(); });
  const left = (await stored((store) => store.getAll()) ?? []).filter((one) => one.work === work);
  if (!left.length) return;
  pending.unshift(...left);
  total = Math.max(total, left[0].total);
  here = photos + pending.length - total;
  failed = true;
  draw();
}

// Send files, each with where it goes; one call is one step that can be undone.
export async function enqueue(files, drop = crypto.randomUUID()) {
  if (!pending.length) { total = 0; came = null; }
  total += files.length;
  const more = files.map(({ file, name, query }) => (
    { id: crypto.randomUUID(), work, file, name, query: { ...query, drop }, total }));
  pending.push(...more);
  if (pending.reduce((sum, one) => sum + one.file.size, 0) <= MOST_KEPT) {
    stored((store) => { for (const one of more) store.put(one); });
  }
  return sendAll();
}

// Until all that waits is sent, also what comes meanwhile.
export function sendAll() {
  sending ??= sendEach().finally(() => {
    sending = null;
    draw();
    if (!failed) report();
  });
  return sending;
}

async function sendEach() {
  failed = false;
  came ??= { new: 0, moved: 0, known: 0, tests: 0, refused: [] };
  while (pending.length && !failed) {
    draw();
    const batch = nextBatch(), form = new FormData();
    for (const one of batch) form.append("files", one.file, one.name);
    try {
      const answer = await send("photos", form, batch[0].query);
      for (const key of ["new", "moved", "known", "tests"]) came[key] += answer[key];
      came.refused.push(...answer.refused);
      forget(batch);
    } catch (error) {
      failed = true;
      tell(reason(error));
    }
  }
}

function forget(batch) {
  const gone = new Set(batch);
  pending = pending.filter((one) => !gone.has(one));
  stored((store) => { for (const one of batch) store.delete(one.id); });
}

// The first files that go to the same place, as many as one request takes; an archive goes by itself.
function nextBatch() {
  const batch = [], place = JSON.stringify(pending[0].query);
  let bytes = 0;
  for (const one of pending) {
    const alone = ARCHIVE.test(one.name), full = batch.length >= MOST_FILES || bytes + one.file.size > MOST_BYTES;
    if (JSON.stringify(one.query) !== place || (batch.length && (alone || full))) break;
    batch.push(one);
    bytes += alone ? MOST_BYTES : one.file.size;
  }
  return batch;
}

function report() {
  const said = [];
  if (came.known) said.push(`${plural(came.known, "photo")} already here.`);
  if (came.moved) said.push(`${plural(came.moved, "photo")} moved here from another class.`);
  if (came.tests) said.push(`${plural(came.tests, "photo")} kept for testing, never learned from.`);
  said.push(...came.refused.slice(0, 5));
  if (came.refused.length > 5) said.push(`And ${came.refused.length - 5} more.`);
  if (said.length) tell(said.join("\n"));
}

let redraw = () => {};
export function setUp(changed) { redraw = changed; }

function draw() {
  const place = at("unsent"), stuck = status() === "stuck";
  place.hidden = !stuck;
  place.replaceChildren(...(stuck ? [
    make("span", {}, `${pending.length.toLocaleString("en")} of ${plural(total, "photo")} were not sent.`),
    make("button", { type: "button", class: "main", onclick: sendAll }, "Send them again"),
    make("button", { type: "button", onclick: () => { forget(pending); failed = false; draw(); } }, "Forget them"),
  ] : []));
  redraw();
}
