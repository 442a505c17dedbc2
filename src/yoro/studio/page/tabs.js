// The three parts of the page: side by side below the header, or tabs on a narrow page.

import { at } from "./elements.js";

const PARTS = ["side", "centre", "trial"];

export function show(part) {
  for (const one of PARTS) {
    at(one).classList.toggle("front", one === part);
    at(`tab-${one}`).setAttribute("aria-pressed", String(one === part));
  }
}

export function setUp() {
  const header = document.querySelector("header");
  new ResizeObserver(() => document.documentElement.style.setProperty("--top", `${header.offsetHeight}px`)).observe(header);
  for (const one of PARTS) at(`tab-${one}`).addEventListener("click", () => { show(one); scrollTo(0, 0); });
}
