// The page of the phone: a class, the camera, and photos on their way to the studio. Text of strangers stays text.

import { Camera } from "./camera.js";

const API = "/phone/api/";
const AT_ONCE = 4; // photos of one request
const KEPT = "yoro-phone"; // where the token is kept until the tab is closed
const at = (id) => document.getElementById(id);

const token = location.hash.slice(1) || sessionStorage.getItem(KEPT) || "";
sessionStorage.setItem(KEPT, token);
history.replaceState(null, "", location.pathname); // not where others could read it
const headers = { authorization: `Bearer ${token}` };
const counts = new Map(); // photos sent, by class

let camera = null;
let sending = Promise.resolve(); // one request after another

function say(sentence, bad = false) {
  at("said").textContent = sentence;
  at("said").classList.toggle("bad", bad);
}

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(API + path, { headers, ...options });
  } catch {
    throw new Error("The studio does not answer. Is it still running, and is the phone in the same network?");
  }
  const said = await response.json().catch(() => ({}));
  if (response.status === 401) throw new Error("This link is from an earlier start of the studio; scan the new code.");
  if (!response.ok) throw new Error(said.error ?? `The studio answered ${response.status}.`);
  return said;
}

async function showClasses() {
  const { classes } = await ask("classes");
  const chosen = at("class").value;
  at("class").replaceChildren(...classes.map(({ id, name }) => new Option(name, id)), new Option("Unsorted", 0));
  if ([...at("class").options].some((option) => option.value === chosen)) at("class").value = chosen;
}

async function send(files) {
  const belongs = at("class").value, name = at("class").selectedOptions[0].text;
  for (let i = 0; i < files.length; i += AT_ONCE) {
    const form = new FormData();
    for (const file of files.slice(i, i + AT_ONCE)) form.append("files", file, file.name);
    say(`Sending to ${name}…`);
    const came = await ask("photos?" + new URLSearchParams({ belongs }), { method: "POST", body: form });
    counts.set(belongs, (counts.get(belongs) ?? 0) + came.new + came.moved);
    const sent = counts.get(belongs);
    say([`${sent} ${sent === 1 ? "photo" : "photos"} sent to ${name}.`, ...came.refused].join("\n"), came.refused.length > 0);
  }
}

// What fails is said, and the next photo can be sent.
function queue(files) {
  sending = sending.then(() => send(files)).catch((error) => say(error.message, true));
  return sending;
}

async function openCamera() {
  camera = new Camera(at("video"), null);
  try {
    await camera.start();
  } catch {
    camera = null;
    at("video").hidden = at("take").hidden = true; // the phone's own camera can still be chosen
    say("The browser gives no camera; “Choose photos” opens the phone's own.");
  }
}

at("take").addEventListener("click", async () => {
  const now = new Date().toTimeString().slice(0, 8).replaceAll(":", "-");
  await queue([await camera.picture(`phone ${now}.jpg`, "image/jpeg")]);
});
at("choose").addEventListener("click", () => at("files").click());
at("files").addEventListener("change", () => {
  const files = [...at("files").files];
  at("files").value = "";
  queue(files);
});
at("class").addEventListener("focus", () => showClasses().catch((error) => say(error.message, true)));

showClasses().then(async () => {
  at("taking").hidden = false;
  say("Choose a class, then take photos of it.");
  await openCamera();
  document.documentElement.dataset.state = "ready";
}, (error) => say(error.message, true));
