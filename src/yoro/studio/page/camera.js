// The camera: a burst while a class's button is held, and a live trial.

import { Camera } from "../camera.js";
import { at, tell } from "./elements.js";
import { enqueue } from "./queue.js";
import { tryImage } from "./trial.js";

const EVERY = 200; // milliseconds between photos of a burst
const LIVE = 400; // milliseconds between two frames that are classified
const AT_ONCE = 8; // photos of one request

const camera = new Camera(at("video"), null);

export const running = () => camera.open;

const still = () => camera.picture("image", "image/jpeg");

export async function toggle() {
  if (camera.open) {
    camera.stop();
    return show();
  }
  try {
    await camera.start();
  } catch (error) {
    camera.stop();
    tell(error.name === "NotAllowedError"
      ? "The browser blocked the camera; allow it in the address bar."
      : "No camera available; drop or paste photos instead.");
    return;
  }
  show();
  classifyLive();
}

function show() {
  at("camera").hidden = !running();
  at("camera-toggle").setAttribute("aria-pressed", String(running()));
  document.querySelectorAll(".burst").forEach((button) => { button.hidden = !running(); });
}

// Take photos for a class as long as its button is held; a mere press, or a key, takes one.
export function holds(button, belongs) {
  let held = false;
  const begin = async (event) => {
    if (held || !running() || (event.key !== undefined && ![" ", "Enter"].includes(event.key))) return;
    event.preventDefault();
    held = true;
    button.classList.add("running");
    const drop = crypto.randomUUID(); // one hold is one step
    let waiting = [], number = 0;
    do {
      number += 1;
      waiting.push({ file: await still(), name: `camera ${number}.jpg`, query: { belongs } });
      if (waiting.length >= AT_ONCE) enqueue(waiting.splice(0), drop);
      await new Promise((good) => setTimeout(good, EVERY));
    } while (held && running());
    if (waiting.length) await enqueue(waiting, drop);
    button.classList.remove("running");
  };
  const end = () => { held = false; };
  button.addEventListener("pointerdown", (event) => { button.setPointerCapture(event.pointerId); begin(event); });
  button.addEventListener("keydown", begin);
  for (const kind of ["pointerup", "pointercancel", "keyup", "blur"]) button.addEventListener(kind, end);
}

// Classify what the camera sees while the box is ticked; nothing runs otherwise.
let classifying = false;
async function classifyLive() {
  if (classifying) return;
  classifying = true;
  while (running() && at("live").checked) {
    const ready = at("video").videoWidth && document.body.classList.contains("learned");
    if (ready) await tryImage(await still(), true);
    await new Promise((good) => setTimeout(good, LIVE));
  }
  classifying = false;
}

export function setUp() {
  at("camera-toggle").addEventListener("click", toggle);
  at("live").addEventListener("change", classifyLive);
}
