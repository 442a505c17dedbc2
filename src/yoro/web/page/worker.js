// Decoding, resizing and the forward pass, beside the page so that it stays quick.

import * as ort from "./ort.js";
import { readPicture } from "./pixels.js";
import { square } from "./resize.js";

const THUMBNAIL = 320; // pixels of the longer side
const BESIDE = new Set(["model.onnx", "ort.wasm"]);

let facts = null;
let session = null;

let last = Promise.resolve(); // what is being done; one thing after another, so that memory stays bounded

self.onmessage = ({ data }) => {
  last = last.then(() => (data.facts ? load(data.facts) : answer(data)));
  last = last.catch((error) => self.postMessage({ id: data.id ?? null, error: error.message || String(error) }));
};

async function load(given) {
  facts = given;
  const total = [...BESIDE].reduce((sum, name) => sum + facts.files[name], 0);
  let loaded = 0;
  const tell = (bytes) => self.postMessage({ loaded: (loaded += bytes), total });
  const [graph, wasm] = await Promise.all([...BESIDE].map((name) => download(name, tell)));
  ort.env.wasm.numThreads = 1; // more need headers that a plain file server does not send
  ort.env.wasm.wasmBinary = wasm.buffer;
  self.postMessage({ starting: true });
  session = await ort.InferenceSession.create(graph, { executionProviders: ["wasm"] });
  self.postMessage({ ready: true });
}

// The bytes of a file, counted as they come.
async function download(name, tell) {
  const response = await fetch(new URL(name, import.meta.url));
  if (!response.ok) throw new Error(`${name} could not be loaded (the server answered ${response.status}).`);
  const bytes = new Uint8Array(facts.files[name]);
  const reader = response.body.getReader();
  let at = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    if (at + value.length > bytes.length) throw new Error(`${name} does not match model.json: it is larger. Export the page again.`);
    bytes.set(value, at);
    at += value.length;
    tell(value.length);
  }
  if (at !== bytes.length) throw new Error(`${name} is incomplete: ${at} of ${bytes.length} bytes. Reload the page, or export it again.`);
  return bytes;
}

async function answer({ id, file, frame }) {
  const { image, part, small } = file ? await picture(file) : { image: { ...frame, channels: 4 }, part: {}, small: null };
  const { side } = facts.input;
  const images = new ort.Tensor("uint8", new Uint8Array(square(image, facts.input, part).buffer), [1, side, side, 3]);
  const wanted = facts.fitted ? ["probabilities", "strangeness"] : ["probabilities"];
  const found = await session.run({ images }, wanted);
  const strangeness = found.strangeness ? found.strangeness.data[0] : null;
  self.postMessage({ id, probabilities: found.probabilities.data, strangeness, small }, small ? [small] : []);
}

async function picture(file) {
  if (file.size > facts.most_bytes) throw new Error("The file is too large.");
  if (!file.size) throw new Error("The file is empty.");
  return readPicture(file, facts.input, THUMBNAIL);
}
