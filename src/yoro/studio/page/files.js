// Files on their way in: dropped, pasted or chosen; folders become classes, archives go as they are.

import { attempt, send } from "./api.js";
import { at, plural, tell } from "./elements.js";

const ARCHIVE = /\.(zip|tar|tgz|tar\.gz|tbz2|tar\.bz2)$/i;
const IMAGE = /\.(jpe?g|jpe|jfif|png|gif|bmp|tiff?|webp|avif|heic|heif|ppm|pgm|jp2)$/i;
const SPLITS = ["train", "training", "val", "valid", "validation", "dev"];
const TESTS = ["test", "testing"];
const MOST_FILES = 16, MOST_BYTES = 24 * 2 ** 20;

// What was dropped, as { file, path }; the entries must be taken before the event ends.
export async function dropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return [...transfer.files].map((file) => ({ file, path: file.name }));
  const found = [];
  for (const entry of entries) await walk(entry, "", found);
  return found;
}

async function walk(entry, before, found) {
  const path = before + entry.name;
  if (entry.isFile) {
    const file = await new Promise((good, bad) => entry.file(good, bad));
    found.push({ file, path });
    return;
  }
  const reader = entry.createReader();
  for (;;) {
    const part = await new Promise((good, bad) => reader.readEntries(good, bad));
    if (!part.length) return;
    for (const inner of part) await walk(inner, `${path}/`, found);
  }
}

export const chosen = (list) => [...list].map((file) => ({ file, path: file.webkitRelativePath || file.name }));

// The class that the folders around a file name: null for a loose file, undefined for one of a test split.
function folderOf(path, loose) {
  const folders = path.split("/").slice(0, -1);
  if (!folders.length) return null;
  if (folders.length === 1 || loose.has(folders[0])) return folders[0];
  const inner = folders.slice(1);
  if (TESTS.includes(inner[0].toLowerCase()) && inner.length > 1) return undefined;
  return SPLITS.includes(inner[0].toLowerCase()) && inner.length > 1 ? inner[1] : inner[0];
}

// Send files to a class; those in folders go to the class named like their folder.
export async function add(found, belongs) {
  const model = modelIn(found);
  if (model) return openModel(model);
  const loose = new Set(found.filter(({ path }) => path.split("/").length === 2).map(({ path }) => path.split("/")[0]));
  const groups = new Map();
  let tests = 0;
  for (const { file, path } of found) {
    if (path.split("/").some((part) => part.startsWith("."))) continue;
    const folder = folderOf(path, loose);
    if (folder === undefined) { tests += 1; continue; }
    if (folder !== null && !IMAGE.test(file.name)) continue;
    const key = folder === null ? "" : folder;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(file);
  }
  const total = [...groups.values()].reduce((sum, files) => sum + files.length, 0);
  const came = { new: 0, moved: 0, known: 0, refused: [] };
  let sent = 0;
  for (const [folder, files] of groups) {
    for (const batch of batches(files)) {
      at("working-text").textContent = `Uploading ${sent + 1} of ${total}`;
      const form = new FormData();
      for (const file of batch) form.append("files", file, file.name || "pasted.png");
      const query = folder ? { name: folder } : belongs === null ? {} : { belongs };
      const answer = await attempt(() => send("photos", form, query));
      if (answer === null) return;
      for (const key of ["new", "moved", "known"]) came[key] += answer[key];
      came.refused.push(...answer.refused);
      sent += batch.length;
    }
  }
  at("working-text").textContent = "";
  const said = [];
  if (came.known) said.push(`${plural(came.known, "photo")} already here.`);
  if (came.moved) said.push(`${plural(came.moved, "photo")} moved here from another class.`);
  if (tests) said.push(`${plural(tests, "photo")} in a test folder left out: test photos are never learned from.`);
  said.push(...came.refused.slice(0, 5));
  if (came.refused.length > 5) said.push(`And ${came.refused.length - 5} more.`);
  tell(said.join("\n"));
}

// The files of a model among what came: an archive as the studio makes it, or its directory.
function modelIn(found) {
  const archive = found.find(({ file }) => /\.yoro( ?\(\d+\))?\.zip$/i.test(file.name));
  if (archive) return [archive];
  const inside = found.filter(({ path }) => /\.yoro\/[^/]+$/i.test(path));
  return inside.some(({ file }) => file.name === "config.json") ? inside : null;
}

export async function openModel(found) {
  at("working-text").textContent = "Opening the model…";
  const form = new FormData();
  for (const { file, path } of found) form.append("files", file, path);
  const answer = await attempt(() => send("model", form));
  at("working-text").textContent = "";
  if (answer !== null) tell(answer.new ? "" : "This model is already open.");
}

function* batches(files) {
  let batch = [], bytes = 0;
  for (const file of files) {
    const alone = ARCHIVE.test(file.name);
    if (batch.length && (alone || batch.length >= MOST_FILES || bytes + file.size > MOST_BYTES)) {
      yield batch;
      batch = [];
      bytes = 0;
    }
    batch.push(file);
    bytes += alone ? MOST_BYTES : file.size;
  }
  if (batch.length) yield batch;
}

// Let files be dropped on an element.
export function takesDrops(element, taken) {
  element.addEventListener("dragover", (event) => {
    event.preventDefault();
    event.stopPropagation();
    element.classList.add("over");
  });
  element.addEventListener("dragleave", () => element.classList.remove("over"));
  element.addEventListener("drop", async (event) => {
    event.preventDefault();
    event.stopPropagation();
    element.classList.remove("over");
    const moved = event.dataTransfer.getData("application/x-yoro-photos");
    taken(moved ? { photos: JSON.parse(moved) } : { files: await dropped(event.dataTransfer) });
  });
}
