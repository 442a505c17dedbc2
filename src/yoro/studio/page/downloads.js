// Downloads: the menu closes at once, and the page says what is being made until the file is there.

import { attempt } from "./api.js";
import { at, tell } from "./elements.js";

const mega = (bytes) => (bytes / 1e6).toFixed(1);

async function fetched(link, say) {
  const response = await fetch(link.href);
  if (!response.ok) throw new Error((await response.json().catch(() => ({}))).error || `Error ${response.status}.`);
  const total = Number(response.headers.get("content-length")), parts = [];
  let came = 0;
  for (const reader = response.body.getReader();;) {
    const { done, value } = await reader.read();
    if (done) return new Blob(parts);
    parts.push(value);
    came += value.length;
    say(`Downloading: ${mega(came)} of ${mega(total)} MB`);
  }
}

async function download(link) {
  const say = (sentence) => { at("download-text").textContent = sentence; };
  at("downloads").open = false;
  at("downloads").querySelector("summary").focus();
  at("download-progress").hidden = false;
  say(`Preparing: ${link.firstChild.data}…`);
  const content = await attempt(() => fetched(link, say));
  at("download-progress").hidden = true;
  say("");
  if (content === null) return;
  tell("");
  const made = document.createElement("a");
  made.href = URL.createObjectURL(content);
  made.download = link.pathname.split("/").pop();
  made.click();
  setTimeout(() => URL.revokeObjectURL(made.href), 60000);
}

export function setUp() {
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll(".menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  });
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && document.querySelector(".menu[open]");
    if (!menu) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
  for (const link of at("downloads").querySelectorAll("a")) {
    link.addEventListener("click", (event) => { event.preventDefault(); download(link); });
  }
}
