// Pillow's antialiased resize, to the bit: two passes of fixed-point sums, along rows first, each rounded to 8 bits.
// From version 13 on Pillow begins with the columns of an image whose height shrinks by far more than its width.

const PRECISION = 22; // bits behind the point: 32 of an integer, less 8 of a pixel and 2 for overshoot
const HALF = 1 << (PRECISION - 1);
const CUBIC = -0.5;

const FILTERS = {
  bilinear: { support: 1, at: (x) => Math.max(0, 1 - Math.abs(x)) },
  bicubic: { support: 2, at: cubic },
};

function cubic(x) {
  const d = Math.abs(x);
  if (d < 1) return ((CUBIC + 2) * d - (CUBIC + 3)) * d * d + 1;
  return d < 2 ? (((d - 5) * d + 8) * d - 4) * CUBIC : 0;
}

// The square that a classifier is shown, (side * side * 3) bytes of RGB.
// `image` has width, height, channels and data; `box` is the part of it that counts, and `size` how large the whole
// picture was before it was reduced: both only of a reduced one.
export function square(image, geometry, { box = null, size = image } = {}) {
  const { side, fit } = geometry;
  if (fit === "squash") return resize(image, side, side, geometry, { box });
  const [width, height] = shorterTo(side, size.width, size.height);
  if (width * height > geometry.most_pixels) throw new Error("The image is too narrow to crop.");
  const window = [roundHalfEven((width - side) / 2), roundHalfEven((height - side) / 2), side, side];
  return resize(image, width, height, geometry, { box, window });
}

// Resized RGB; of the result only `window` (left, top, width, height) is computed.
export function resize(image, width, height, { interpolation, columns_first }, { box = null, window = null } = {}) {
  const [x0, y0, x1, y1] = (box ?? [0, 0, image.width, image.height]).map(Math.fround); // as Pillow holds a box
  const [left, top, across, down] = window ?? [0, 0, width, height];
  const filter = FILTERS[interpolation];
  const columns = coefficients(image.width, x0, x1, width, filter, left, across);
  const rows = coefficients(image.height, y0, y1, height, filter, top, down);
  if (columns_first && image.height > height && image.height - height > 2 * (image.width - width)) {
    return horizontally(vertically(image, rows, 0), columns, 0, down).data;
  }
  const first = rows.starts[0];
  const last = rows.starts[down - 1] + rows.counts[down - 1];
  return vertically(horizontally(image, columns, first, last - first), rows, first).data;
}

function shorterTo(side, width, height) {
  if (width <= height) return [side, Math.trunc((side * height) / width)];
  return [Math.trunc((side * width) / height), side];
}

function roundHalfEven(value) {
  const low = Math.floor(value);
  if (value - low !== 0.5) return Math.round(value);
  return low % 2 === 0 ? low : low + 1;
}

// For each of `count` results from `from` on: where its weights start, how many there are, and the weights themselves.
function coefficients(inSize, in0, in1, outSize, filter, from, count) {
  const scale = Math.fround(in1 - in0) / outSize;
  const stretch = Math.max(scale, 1);
  const support = filter.support * stretch;
  const most = Math.ceil(support) * 2 + 1;
  const starts = new Int32Array(count);
  const counts = new Int32Array(count);
  const weights = new Int32Array(count * most);
  const exact = new Float64Array(most);
  const inverse = 1 / stretch;
  for (let i = 0; i < count; i++) {
    const centre = in0 + (from + i + 0.5) * scale;
    const start = Math.max(0, Math.trunc(centre - support + 0.5));
    const end = Math.min(inSize, Math.trunc(centre + support + 0.5));
    let total = 0;
    for (let x = 0; x < end - start; x++) {
      exact[x] = filter.at((x + start - centre + 0.5) * inverse);
      total += exact[x];
    }
    for (let x = 0; x < end - start; x++) {
      const weight = total === 0 ? exact[x] : exact[x] / total;
      weights[i * most + x] = Math.trunc((weight < 0 ? -0.5 : 0.5) + weight * (1 << PRECISION));
    }
    starts[i] = start;
    counts[i] = end - start;
  }
  return { starts, counts, weights, most };
}

function horizontally(image, { starts, counts, weights, most }, first, height) {
  const { data, width, channels } = image;
  const across = starts.length;
  const out = new Uint8ClampedArray(across * height * 3);
  let place = 0;
  for (let y = 0; y < height; y++) {
    const row = (y + first) * width * channels;
    for (let i = 0; i < across; i++) {
      let [r, g, b] = [HALF, HALF, HALF];
      let at = row + starts[i] * channels;
      for (let k = i * most, end = k + counts[i]; k < end; k++, at += channels) {
        const weight = weights[k];
        r += data[at] * weight;
        g += data[at + 1] * weight;
        b += data[at + 2] * weight;
      }
      out[place++] = r >> PRECISION;
      out[place++] = g >> PRECISION;
      out[place++] = b >> PRECISION;
    }
  }
  return { data: out, width: across, height, channels: 3 };
}

function vertically(image, { starts, counts, weights, most }, first) {
  const { data, width, channels } = image;
  const stride = width * channels;
  const out = new Uint8ClampedArray(stride * starts.length);
  const sums = new Int32Array(stride);
  for (let i = 0; i < starts.length; i++) {
    sums.fill(HALF);
    for (let k = 0; k < counts[i]; k++) {
      const weight = weights[i * most + k];
      const row = (starts[i] - first + k) * stride;
      for (let x = 0; x < stride; x++) sums[x] += data[row + x] * weight;
    }
    for (let x = 0; x < stride; x++) out[i * stride + x] = sums[x] >> PRECISION;
  }
  return { data: out, width, height: starts.length, channels };
}
