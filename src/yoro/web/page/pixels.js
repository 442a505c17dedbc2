// From a file to upright RGB pixels, as near to Python's as a browser lets us come.

const STRIP = 1 << 22; // pixels that are drawn at a time: phones refuse larger canvases
const OPTIONS = { imageOrientation: "from-image", colorSpaceConversion: "none", premultiplyAlpha: "none" };

// The picture in a file, how it is to be taken, and a small copy to show.
export async function readPicture(file, geometry, thumbnail, mostPixels) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(file, OPTIONS);
  } catch {
    throw new Error("This browser cannot read it as an image. A JPEG, PNG or WebP will do.");
  }
  try {
    if (bitmap.width * bitmap.height > mostPixels) throw new Error("It has too many pixels.");
    const image = pixelsOf(bitmap);
    const small = await shrunk(bitmap, thumbnail);
    const head = new Uint8Array(await file.slice(0, 1 << 18).arrayBuffer());
    const factor = geometry.jpeg_draft && isJpeg(head) ? draftFactor(image, geometry.jpeg_draft) : 1;
    const part = factor === 1 ? {} : reducedPart(image, factor, orientationOf(head));
    return { image: part.image ?? image, part, small };
  } finally {
    bitmap.close();
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

// What libjpeg gives at a half, a quarter or an eighth: means of squares of pixels, counted from the corner at which the
// file starts. Photos that were turned start at another corner than the upright picture.
export function reducedPart(image, factor, orientation) {
  const { width, height, channels, data } = image;
  const across = Math.ceil(width / factor);
  const down = Math.ceil(height / factor);
  const fromRight = [2, 3, 6, 7].includes(orientation) ? across * factor - width : 0;
  const fromBottom = [3, 4, 7, 8].includes(orientation) ? down * factor - height : 0;
  const out = new Uint8ClampedArray(across * down * 3);
  for (let y = 0; y < down; y++) {
    const top = Math.max(0, y * factor - fromBottom);
    const bottom = Math.min(height, (y + 1) * factor - fromBottom);
    for (let x = 0; x < across; x++) {
      const left = Math.max(0, x * factor - fromRight);
      const right = Math.min(width, (x + 1) * factor - fromRight);
      let [r, g, b] = [0, 0, 0];
      for (let row = top; row < bottom; row++) {
        for (let at = (row * width + left) * channels, end = at + (right - left) * channels; at < end; at += channels) {
          r += data[at];
          g += data[at + 1];
          b += data[at + 2];
        }
      }
      const share = 1 / ((bottom - top) * (right - left));
      const place = (y * across + x) * 3;
      out[place] = Math.floor(r * share + 0.5);
      out[place + 1] = Math.floor(g * share + 0.5);
      out[place + 2] = Math.floor(b * share + 0.5);
    }
  }
  const x0 = fromRight ? across - width / factor : 0;
  const y0 = fromBottom ? down - height / factor : 0;
  return {
    image: { data: out, width: across, height: down, channels: 3 },
    box: [x0, y0, x0 + width / factor, y0 + height / factor],
    size: { width, height },
  };
}

async function shrunk(bitmap, side) {
  const scale = Math.min(1, side / Math.max(bitmap.width, bitmap.height));
  const resizeWidth = Math.max(1, Math.round(bitmap.width * scale));
  const resizeHeight = Math.max(1, Math.round(bitmap.height * scale));
  return createImageBitmap(bitmap, { resizeWidth, resizeHeight, resizeQuality: "medium" });
}

function isJpeg(head) {
  return head[0] === 0xff && head[1] === 0xd8 && head[2] === 0xff;
}

// The EXIF orientation of a JPEG, 1 to 8; 1 where nothing sensible is said.
export function orientationOf(head) {
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
  try {
    for (let at = 2; view.getUint8(at) === 0xff; at += 2 + view.getUint16(at + 2)) {
      const marker = view.getUint8(at + 1);
      if (marker === 0xda) break; // the pixels begin
      if (marker === 0xe1 && view.getUint32(at + 4) === 0x45786966) return orientationIn(view, at + 10);
    }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error; // it says more than it holds
  }
  return 1;
}

function orientationIn(view, start) {
  const little = view.getUint16(start) === 0x4949;
  const table = start + view.getUint32(start + 4, little);
  for (let i = 0; i < view.getUint16(table, little); i++) {
    const entry = table + 2 + 12 * i;
    if (view.getUint16(entry, little) !== 0x0112) continue;
    const value = view.getUint16(entry + 8, little);
    return value >= 1 && value <= 8 ? value : 1;
  }
  return 1;
}
