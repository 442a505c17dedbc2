// Answers of the service that gave this page, by its API.

const SMALL = 320; // pixels of the longer side of a photo that is shown
const LIVE = 250; // milliseconds between two frames of the camera
const MOST = 1000; // classes of an answer

export class Answers {
  constructor(facts, headers) {
    this.headers = headers;
    const query = { top: Math.min(MOST, facts.classes.length), ...(facts.fitted && { unknown: 0 }) };
    this.address = "v1/predict?" + new URLSearchParams(query);
  }

  async start() {}

  // The answer to a file, or to a frame of the camera.
  async ask({ file, frame }) {
    const form = new FormData();
    if (frame) await new Promise((next) => setTimeout(next, LIVE));
    form.append("images", file ?? (await encoded(frame)), file?.name ?? "camera.jpg");
    const [answer, small] = await Promise.all([this.send(form), file ? shrunk(file) : null]);
    const best = (answer.top ?? [answer]).map(({ label, probability }) => ({ name: label, probability }));
    return { best, typical: answer.typicality ?? null, small };
  }

  async send(form) {
    let response;
    try {
      response = await fetch(this.address, { method: "POST", headers: this.headers, body: form });
    } catch {
      throw new Error("The service does not answer. Is `yoro serve` still running?");
    }
    const said = await response.json().catch(() => ({}));
    if (!response.ok) throw new Error(said.error ?? `The service answered ${response.status}.`);
    return said.predictions[0];
  }
}

async function encoded({ data, width, height }) {
  const canvas = new OffscreenCanvas(width, height);
  canvas.getContext("2d").putImageData(new ImageData(data, width, height), 0, 0);
  return canvas.convertToBlob({ type: "image/jpeg", quality: 0.92 });
}

// A small copy to show; null of what only the service can read.
async function shrunk(file) {
  try {
    const whole = await createImageBitmap(file);
    const scale = Math.min(1, SMALL / Math.max(whole.width, whole.height));
    const [resizeWidth, resizeHeight] = [whole.width, whole.height].map((side) => Math.max(1, Math.round(side * scale)));
    const small = await createImageBitmap(whole, { resizeWidth, resizeHeight, resizeQuality: "medium" });
    whole.close();
    return small;
  } catch {
    return null;
  }
}
