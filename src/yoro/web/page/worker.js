// Decoding, resizing and the forward pass, beside the page so that it stays quick.

import * as ort from "./ort.js";
import { readPicture } from "./pixels.js";
import { square } from "./resize.js";

const THUMBNAIL = 320; // pixels of the longer side
const BESIDE = ["model.packed", "ort.packed"];
// The smallest graph in ONNX's format: one number in, the same out.
const NOTHING = Uint8Array.of(
  8, 8, 18, 0, 58, 55, 10, 16, 10, 1, 97, 18, 1, 98, 34, 8, 73, 100, 101, 110, 116, 105, 116, 121, 18, 1, 103, 90, 15, 10, 1, 97, 18,
  10, 10, 8, 8, 1, 18, 4, 10, 2, 8, 1, 98, 15, 10, 1, 98, 18, 10, 10, 8, 8, 1, 18, 4, 10, 2, 8, 1, 66, 4, 10, 0, 16, 13,
);

let facts = null;
let session = null;

let last = Promise.resolve(); // what is being done; one thing after another, so that memory stays bounded

self.onmessage = ({ data }) => {
  last = last.then(() => (data.facts ? load(data.facts) : answer(data)));
  last = last.catch((error) => self.postMessage({ id: data.id ?? null, error: error.message || String(error) }));
};

async function load(given) {
  facts = given;
  const total = BESIDE.reduce((sum, name) => sum + facts.files[name], 0);
  let loaded = 0;
  const tell = (bytes) => self.postMessage({ loaded: (loaded += bytes), total });
  ort.env.wasm.numThreads = 1; // more need headers that a plain file server does not send
  const options = { executionProviders: ["wasm"] };
  const runtime = download("ort.packed", tell).then((wasm) => {
    ort.env.wasm.wasmBinary = wasm.buffer;
    return ort.InferenceSession.create(NOTHING, options); // compiles the runtime while the model still comes
  });
  const [graph] = await Promise.all([download("model.packed", tell), runtime]);
  self.postMessage({ starting: true });
  session = await ort.InferenceSession.create(graph, options);
  self.postMessage({ ready: true });
}

// The content of a packed file; its bytes are counted as they come, and unpacked here, whatever the server can do.
async function download(name, tell) {
  const response = await fetch(new URL(name, import.meta.url));
  if (!response.ok) throw new Error(`${name} could not be loaded (the server answered ${response.status}).`);
  if (!self.DecompressionStream) throw new Error("This browser is too old for the page; update it.");
  let came = 0;
  const counting = new TransformStream({
    transform(chunk, to) {
      came += chunk.length;
      tell(chunk.length);
      to.enqueue(chunk);
    },
  });
  const content = response.body.pipeThrough(counting).pipeThrough(new DecompressionStream("gzip"));
  try {
    return new Uint8Array(await new Response(content).arrayBuffer());
  } catch {
    throw new Error(`${name} is incomplete or damaged: ${came} of ${facts.files[name]} bytes came. Reload the page, or export it again.`);
  }
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
