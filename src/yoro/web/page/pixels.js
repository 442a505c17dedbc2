// From a file to upright RGB pixels, as near to Python's as a browser lets us come.

const STRIP = 1 << 22; // pixels that are drawn at a time: phones refuse larger canvases
const OPTIONS = { imageOrientation: "from-image", colorSpaceConversion: "none", premultiplyAlpha: "none" };

// The picture in a file, which part of it is to be taken (see resize.js), and a small copy to show.
export async function readPicture(file, geometry, thumbnail) {
  const bytes = await file.arrayBuffer();
  const jpeg = jpegFacts(new Uint8Array(bytes));
  const factor = jpeg && geometry.jpeg_draft ? draftFactor(jpeg, geometry.jpeg_draft) : 1;
  const declared = jpeg ?? pngSize(bytes);
  if (declared) checkPixels(declared, geometry.most_pixels);
  if (factor > 1) {
    const image = await draft(bytes, jpeg, factor);
    if (image) return { image, part: partOf(jpeg, factor), small: await shrunk(pictureOf(image), thumbnail) };
  }
  const bitmap = await bitmapOf(file);
  try {
    checkPixels(bitmap, geometry.most_pixels);
    const image = pixelsOf(bitmap);
    const small = await shrunk(bitmap, thumbnail);
    if (factor > 1) return { image: reduced(image, factor, jpeg.orientation), part: partOf(jpeg, factor), small };
    return { image, part: {}, small };
  } finally {
    bitmap.close();
  }
}

function checkPixels({ width, height }, most) {
  if (width * height > most) throw new Error(`The image is too large: ${width} x ${height} pixels.`);
}

// The size that a PNG declares, so that no memory is taken for one that claims too much.
function pngSize(bytes) {
  if (bytes.byteLength < 24) return null;
  const view = new DataView(bytes);
  if (view.getUint32(0) !== 0x89504e47 || view.getUint32(12) !== 0x49484452) return null;
  return { width: view.getUint32(16), height: view.getUint32(20) };
}

async function bitmapOf(file) {
  try {
    return await createImageBitmap(file, OPTIONS);
  } catch {
    throw new Error("This browser cannot read the image. Try a JPEG, PNG or WebP.");
  }
}

function pictureOf({ data, width, height }) {
  return new ImageData(data, width, height);
}

// A JPEG decoded at 1/factor by the browser's own libjpeg, upright, as Pillow's `draft` does it; null where the browser
// cannot.
async function draft(bytes, jpeg, factor) {
  if (!globalThis.ImageDecoder) return null;
  const [width, height] = [Math.ceil(jpeg.width / factor), Math.ceil(jpeg.height / factor)];
  const size = { desiredWidth: width, desiredHeight: height };
  const decoder = new ImageDecoder({ data: bytes.slice(0), type: "image/jpeg", colorSpaceConversion: "none", ...size });
  let frame = null;
  try {
    frame = (await decoder.decode()).image;
    if (frame.codedWidth !== width || frame.codedHeight !== height) return null;
    const data = new Uint8ClampedArray(width * height * 4);
    await frame.copyTo(data, { format: "RGBA" });
    return turned({ data, width, height, channels: 4 }, jpeg.orientation);
  } catch {
    return null;
  } finally {
    frame?.close();
    decoder.close();
  }
}

// How much smaller libjpeg decodes a picture of which at least `asked` pixels are wanted each way.
function draftFactor({ width, height }, asked) {
  const scale = Math.min(Math.floor(width / asked), Math.floor(height / asked));
  return [8, 4, 2].find((factor) => scale >= factor) ?? 1;
}

function pixelsOf(bitmap) {
  const { width, height } = bitmap;
  const data = new Uint8ClampedArray(width * height * 4);
  const rows = Math.max(1, Math.min(height, Math.floor(STRIP / width)));
  const canvas = new OffscreenCanvas(width, rows);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.globalCompositeOperation = "copy";
  for (let top = 0; top < height; top += rows) {
    const count = Math.min(rows, height - top);
    context.drawImage(bitmap, 0, top, width, count, 0, 0, width, count);
    data.set(context.getImageData(0, 0, width, count).data, top * width * 4);
  }
  layOnWhite(data);
  return { data, width, height, channels: 4 };
}

// Transparent pixels on white, rounded as Pillow's alpha_composite does.
export function layOnWhite(data) {
  for (let at = 3; at < data.length; at += 4) {
    const alpha = data[at];
    if (alpha === 255) continue;
    const over = alpha << 7;
    const under = 255 * ((255 << 7) - over) + (0x80 << 7);
    for (let c = at - 3; c < at; c++) {
      const sum = data[c] * over + under;
      data[c] = ((sum >> 8) + sum) >> 15;
    }
    data[at] = 255;
  }
}

// Pixels of 4 bytes as they were stored, turned upright as the EXIF orientation says.
export function turned({ data, width, height }, orientation) {
  const [right, bottom] = [width - 1, (height - 1) * width];
  const { start, across, down } = {
    1: { start: 0, across: 1, down: width },
    2: { start: right, across: -1, down: width },
    3: { start: right + bottom, across: -1, down: -width },
    4: { start: bottom, across: 1, down: -width },
    5: { start: 0, across: width, down: 1 },
    6: { start: bottom, across: -width, down: 1 },
    7: { start: right + bottom, across: -width, down: -1 },
    8: { start: right, across: width, down: -1 },
  }[orientation];
  const [newWidth, newHeight] = orientation >= 5 ? [height, width] : [width, height];
  const from = new Uint32Array(data.buffer, data.byteOffset, width * height);
  const to = new Uint32Array(width * height);
  for (let y = 0, place = 0; y < newHeight; y++) {
    for (let x = 0, at = start + y * down; x < newWidth; x++, at += across) to[place++] = from[at];
  }
  return { data: new Uint8ClampedArray(to.buffer), width: newWidth, height: newHeight, channels: 4 };
}

// How many pixels the upright picture has that the file does not: it starts at another corner if it was turned.
function overhang({ width, height, orientation }, factor) {
  const over = (length) => Math.ceil(length / factor) * factor - length;
  return {
    left: [2, 3, 6, 7].includes(orientation) ? over(width) : 0,
    top: [3, 4, 7, 8].includes(orientation) ? over(height) : 0,
  };
}

// The part of a reduced picture that counts, and the full size of the upright one.
export function partOf(jpeg, factor) {
  const size = jpeg.orientation >= 5 ? { width: jpeg.height, height: jpeg.width } : jpeg;
  const { left, top } = overhang({ ...size, orientation: jpeg.orientation }, factor);
  const [x0, y0] = [left / factor, top / factor];
  return { box: [x0, y0, x0 + size.width / factor, y0 + size.height / factor], size };
}

// Where the browser decodes at full size only: means of squares of pixels, which is what libjpeg computes but for
// rounding, colours that were stored at half size, and what is brighter than white. They are not rounded: halves rounded
// up would brighten the picture.
export function reduced(image, factor, orientation) {
  const { width, height, channels, data } = image;
  const across = Math.ceil(width / factor);
  const down = Math.ceil(height / factor);
  const over = overhang({ width, height, orientation }, factor);
  const out = new Float32Array(across * down * 3);
  for (let y = 0; y < down; y++) {
    const top = Math.max(0, y * factor - over.top);
    const bottom = Math.min(height, (y + 1) * factor - over.top);
    for (let x = 0; x < across; x++) {
      const left = Math.max(0, x * factor - over.left);
      const right = Math.min(width, (x + 1) * factor - over.left);
      let [r, g, b] = [0, 0, 0];
      for (let row = top; row < bottom; row++) {
        for (let at = (row * width + left) * channels, end = at + (right - left) * channels; at < end; at += channels) {
          r += data[at];
          g += data[at + 1];
          b += data[at + 2];
        }
      }
      const share = 1 / ((bottom - top) * (right - left));
      out.set([r * share, g * share, b * share], (y * across + x) * 3);
    }
  }
  return { data: out, width: across, height: down, channels: 3 };
}

async function shrunk(bitmap, side) {
  const scale = Math.min(1, side / Math.max(bitmap.width, bitmap.height));
  const resizeWidth = Math.max(1, Math.round(bitmap.width * scale));
  const resizeHeight = Math.max(1, Math.round(bitmap.height * scale));
  return createImageBitmap(bitmap, { resizeWidth, resizeHeight, resizeQuality: "medium" });
}

// Size as stored and EXIF orientation (1 to 8) of a JPEG; null of anything else, or of one that is damaged.
export function jpegFacts(bytes) {
  if (bytes[0] !== 0xff || bytes[1] !== 0xd8 || bytes[2] !== 0xff) return null;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let orientation = 1;
  try {
    for (let at = 2; view.getUint8(at) === 0xff; at += 2 + view.getUint16(at + 2)) {
      while (view.getUint8(at + 1) === 0xff) at++; // fill
      const marker = view.getUint8(at + 1);
      if (marker === 0xe1 && view.getUint32(at + 4) === 0x45786966) orientation = orientationIn(view, at + 10);
      const isFrame = marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);
      if (isFrame) return { height: view.getUint16(at + 5), width: view.getUint16(at + 7), orientation };
    }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error; // it says more than it holds
  }
  return null;
}

function orientationIn(view, start) {
  try {
    const little = view.getUint16(start) === 0x4949;
    const table = start + view.getUint32(start + 4, little);
    for (let i = 0; i < view.getUint16(table, little); i++) {
      const entry = table + 2 + 12 * i;
      if (view.getUint16(entry, little) !== 0x0112) continue;
      const value = view.getUint16(entry + 8, little);
      return value >= 1 && value <= 8 ? value : 1;
    }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
  }
  return 1;
}
