// Files on their way in: dropped, pasted or chosen; folders become classes, archives go as they are.

import { attempt, send } from "./api.js";
import { at, tell } from "./elements.js";
import { ARCHIVE, enqueue } from "./queue.js";

const IMAGE = /\.(jpe?g|jpe|jfif|png|gif|bmp|tiff?|webp|avif|heic|heif|ppm|pgm|jp2)$/i;
const SPLITS = ["train", "training", "val", "valid", "validation", "dev"];
const TESTS = ["test", "testing"];
const UNLABELLED = "A photo to test with needs its class: choose a folder with one folder per class. Or add the photos to their class, select them there and press Keep for testing.";

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

// The class that the folders around a file name, and whether it is of a test split; null for a loose file.
function folderOf(path, loose) {
  const folders = path.split("/").slice(0, -1);
  if (!folders.length) return null;
  if (folders.length === 1 || loose.has(folders[0])) return { name: folders[0], test: false };
  const [split, inner] = [folders[1].toLowerCase(), folders.length > 2];
  const test = TESTS.includes(split) && inner;
  return { name: test || (SPLITS.includes(split) && inner) ? folders[2] : folders[1], test };
}

// Send files to a class; those in folders go to the class named like their folder, and test folders to the test set.
export async function add(found, belongs, aside = false) {
  const model = modelIn(found);
  if (model) return openModel(model);
  const loose = new Set(found.filter(({ path }) => path.split("/").length === 2).map(({ path }) => path.split("/")[0]));
  const files = [];
  for (const { file, path } of found) {
    if (path.split("/").some((part) => part.startsWith("."))) continue;
    const folder = folderOf(path, loose);
    if (folder !== null && !IMAGE.test(file.name)) continue;
    if (aside && folder === null && !ARCHIVE.test(file.name)) return tell(UNLABELLED);
    const query = folder ? { name: folder.name } : belongs === null ? {} : { belongs };
    if (aside || folder?.test) query.aside = true;
    files.push({ file, name: file.name || "pasted.png", query });
  }
  const place = (one) => JSON.stringify(one.query);
  files.sort((a, b) => (place(a) < place(b) ? -1 : place(a) > place(b) ? 1 : 0));
  if (files.length) await enqueue(files);
  else tell("No photos found there.");
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
  if (answer !== null && !answer.new) tell("This model is already open.");
}

export const PHOTOS = "application/x-yoro-photos", CLASS = "application/x-yoro-class";

// Let files, photos of the gallery or classes be dropped on an element.
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
    const moved = event.dataTransfer.getData(PHOTOS), other = event.dataTransfer.getData(CLASS);
    if (other) taken({ class: Number(other) });
    else taken(moved ? { photos: JSON.parse(moved) } : { files: await dropped(event.dataTransfer) });
  });
}
