// The page: what a person does, and what is shown. Who answers is another module: local.js runs the model in this
// browser, and photos stay in it; of a page that `yoro serve` gives, remote.js asks that service.

import { csv, judged } from "./answer.js";
import { Camera } from "./camera.js";
import { imagesOf, itemsOf } from "./files.js";
import { AnswerList, show } from "./list.js";

const REJECTED = [100, 20, 10]; // one in so many photos of known classes is called unknown, too
const USUAL = 20;
const at = (id) => document.getElementById(id);

const headers = {}; // of requests to a service that wants a token
let answers = null;
let list = null;
let facts = null;
let camera = null;

at("unserved").hidden = true;
at("loading").hidden = false;
start().catch((error) => fail(error.message || String(error)));

async function start() {
  const response = await fetch("model.json", { headers });
  if (response.status === 401) return lock();
  if (!response.ok) throw new Error(`model.json could not be loaded (the server answered ${response.status}).`);
  facts = await response.json();
  at("locked").hidden = true;
  describe();
  list = new AnswerList(at("list"), facts, count);
  const { Answers } = await import(facts.service ? "./remote.js" : "./local.js");
  answers = new Answers(facts, headers);
  await answers.start(loading, fail);
  ready();
}

function loading(said, share) {
  at("loading-text").textContent = said;
  if (share === null) at("progress").removeAttribute("value");
  else at("progress").value = share;
}

// The service wants a token, which is kept in this page only.
function lock() {
  at("loading").hidden = true;
  at("locked").hidden = false;
  at("token-wrong").textContent = headers.authorization ? "This token is wrong." : "";
  at("token").value = "";
  at("token").focus();
}

function ready() {
  at("loading").hidden = true;
  at("ask").hidden = false;
  document.documentElement.dataset.state = "ready";
  if ("serviceWorker" in navigator && !facts.service) {
    navigator.serviceWorker
      .register("service.js")
      .then(() => navigator.serviceWorker.ready)
      .then(() => (at("offline").textContent = "This page now works offline, too."))
      .catch(() => {}); // it is a convenience: a private window may refuse it
  }
}

function fail(reason) {
  at("loading").hidden = true;
  at("ask").hidden = true;
  at("failed").hidden = false;
  at("failed-text").textContent = reason;
  document.documentElement.dataset.state = "failed";
}

function describe() {
  const { classes, examples, source, licence, version } = facts;
  const named = classes.length <= 6 ? `: ${classes.join(", ")}` : "";
  const where = facts.service ? "Photos are sent to this service, which does not keep them." : "Your photos stay on this device.";
  at("about").textContent = `${classes.length} classes${named}. ${where}`;
  at("to-docs").hidden = !facts.service;
  const terms = licence ? ` (${licence})` : "";
  at("facts").textContent =
    `Trained on ${examples.toLocaleString("en")} photos with the backbone ${source}${terms}. Made with yoro ${version}.`;
  const strict = at("strict");
  const possible = facts.fitted ? REJECTED.filter((many) => facts.fitted.length + 1 >= many) : [];
  strict.append(new Option("never", "0"));
  for (const many of possible) strict.append(new Option(`yes (rejects 1 in ${many} known photos)`, 1 / many));
  strict.value = String(possible.length ? 1 / (possible.includes(USUAL) ? USUAL : possible[0]) : 0);
  at("strict-line").hidden = !possible.length;
  if (!possible.length) at("note").textContent = "This model cannot recognise unknown photos: it always picks a class.";
  if (!navigator.mediaDevices?.getUserMedia) at("open-camera").hidden = true;
  if (!("webkitdirectory" in at("folder"))) at("choose-folder").hidden = true;
}

async function take(items) {
  const { images, others } = await imagesOf(items);
  if (others) at("note").textContent = `${others} ${others === 1 ? "file is not an image and was" : "files are not images and were"} skipped.`;
  else at("note").textContent = images.length ? "" : "No photos found.";
  list.share = Number(at("strict").value);
  const entries = images.map(({ file, path }) => ({ file, entry: list.add(path) }));
  for (const { file, entry } of entries) {
    if (!list.entries.includes(entry)) continue; // removed meanwhile
    try {
      list.answered(entry, await answers.ask({ file }));
    } catch (error) {
      list.failed(entry, error.message);
    }
  }
}

function count() {
  const done = list.entries.filter((entry) => entry.answer || entry.error).length;
  const all = list.entries.length;
  at("results").hidden = !all;
  at("count").textContent = done === all ? `${all} ${all === 1 ? "photo" : "photos"}` : `${done} of ${all} done`;
}

async function openCamera() {
  camera ??= new Camera(at("video"), watched);
  if (camera.open) return;
  try {
    await camera.start();
    at("camera").hidden = false;
    at("note").textContent = "";
    at("keep").focus();
  } catch (error) {
    const why = error.name === "NotAllowedError" ? "access was denied; allow it in the browser's settings" : error.message;
    at("note").textContent = `The camera could not be opened: ${why}.`;
  }
}

async function watched(frame) {
  try {
    const answer = await answers.ask({ frame }, [frame.data.buffer]);
    if (!camera.open) return; // closed meanwhile
    const judgement = judged(facts, answer, Number(at("strict").value));
    at("live").classList.toggle("unknown", judgement.unknown);
    show(at("live"), judgement);
  } catch (error) {
    at("note").textContent = error.message;
    closeCamera();
  }
}

function closeCamera() {
  camera.stop();
  at("camera").hidden = true;
  at("live").replaceChildren();
  at("open-camera").focus();
}

function save() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([table()], { type: "text/csv" }));
  link.download = "answers.csv";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function chosen({ target }) {
  const files = [...target.files]; // the list is emptied with the field, so that the same file can be chosen again
  target.value = "";
  take(files);
}

at("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  headers.authorization = `Bearer ${at("token").value.trim()}`;
  start().catch((error) => fail(error.message || String(error)));
});
at("again").addEventListener("click", () => location.reload());
at("choose").addEventListener("click", () => at("files").click());
at("choose-folder").addEventListener("click", () => at("folder").click());
at("files").addEventListener("change", chosen);
at("folder").addEventListener("change", chosen);
at("open-camera").addEventListener("click", openCamera);
at("close-camera").addEventListener("click", closeCamera);
at("keep").addEventListener("click", async () => {
  const now = new Date().toTimeString().slice(0, 8).replaceAll(":", "-");
  await take([await camera.picture(`camera ${now}.png`)]);
});
at("strict").addEventListener("change", () => list.redraw(Number(at("strict").value)));
at("clear").addEventListener("click", () => {
  list.clear();
  at("choose").focus();
});
at("save").addEventListener("click", save);

document.addEventListener("paste", (event) => {
  if (!at("ask").hidden && event.clipboardData.files.length) take([...event.clipboardData.files]);
});
document.addEventListener("dragover", (event) => {
  event.preventDefault();
  at("drop").classList.add("over");
});
document.addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) at("drop").classList.remove("over");
});
document.addEventListener("drop", (event) => {
  event.preventDefault();
  at("drop").classList.remove("over");
  if (!at("ask").hidden) take(itemsOf(event.dataTransfer));
});

// The answers as a table, as `yoro predict --unknown` writes it.
export function table() {
  return csv(list.rows());
}

// The answers so far, in the order of the list; for whoever tests the page.
export function rawAnswers() {
  return list.entries.map(({ path, answer, error }) => {
    const { probabilities = [], strangeness, best, typical } = answer ?? {};
    return { path, error, ...(answer && { probabilities: [...probabilities], strangeness, best, typical }) };
  });
}
