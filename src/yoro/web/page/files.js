// Files that a person drops, pastes or chooses, out of folders as well.

const IMAGE = /\.(jpe?g|jfif|png|gif|bmp|webp|avif|tiff?|heic|heif)$/i;

// Files with their paths, in the order of their names; and how many were no images.
export async function imagesOf(items) {
  const found = [];
  for (const item of items) {
    if (item instanceof File) found.push({ file: item, path: item.webkitRelativePath || item.name });
    else await walk(item, found);
  }
  const images = found.filter(({ file }) => file.type.startsWith("image/") || IMAGE.test(file.name));
  images.sort((a, b) => a.path.localeCompare(b.path, "en", { numeric: true }));
  return { images, others: found.length - images.length };
}

// What is being dropped or pasted; to be called before the event is over.
export function itemsOf(transfer) {
  const items = [...transfer.items].filter((item) => item.kind === "file");
  return items.map((item) => item.webkitGetAsEntry?.() ?? item.getAsFile()).filter(Boolean);
}

async function walk(entry, found) {
  const path = entry.fullPath.replace(/^\//, "");
  if (entry.isFile) {
    found.push({ file: await new Promise((give, fail) => entry.file(give, fail)), path });
    return;
  }
  const reader = entry.createReader();
  for (;;) {
    const some = await new Promise((give, fail) => reader.readEntries(give, fail));
    if (!some.length) return; // a folder is read in parts
    for (const inner of some) await walk(inner, found);
  }
}
