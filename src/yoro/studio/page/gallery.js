// The photos of one list: a listbox that is used by pointer or by keys.

import { attempt, get, post } from "./api.js";
import { arrange, at, make, percent, plural, small } from "./elements.js";
import { PHOTOS } from "./files.js";
import * as review from "./review.js";

const PART = 100;
const SUSPICIOUS = -1, UNREADABLE = -2, OUTLIERS = -4, TWINS = -5, TESTS = -6, HARD = -7, UNSORTED = 0;

export class Gallery {
  constructor(changed) {
    this.view = { belongs: UNSORTED };
    this.photos = [];
    this.total = 0;
    this.wanted = PART;
    this.chosen = new Set();
    this.current = null; // the digest that the keys are at
    this.anchor = null;
    this.changed = changed;
    this.asked = 0;
    const list = at("gallery");
    list.addEventListener("click", (event) => this.clicked(event));
    list.addEventListener("dblclick", (event) => this.tried(event.target.closest("li")?.dataset.digest));
    list.addEventListener("dragstart", (event) => this.dragged(event));
    at("more").addEventListener("click", () => { this.wanted += PART; this.refresh(); });
  }

  show(view) {
    this.view = view;
    this.wanted = PART;
    this.chosen.clear();
    this.current = this.anchor = null;
    return this.refresh();
  }

  async refresh() {
    const mine = ++this.asked, view = this.view;
    const found = await attempt(() => this.load(view));
    if (found === null || mine !== this.asked) return;
    this.photos = found.photos;
    this.total = found.total;
    const there = new Set(this.photos.map((photo) => photo.digest));
    for (const digest of this.chosen) if (!there.has(digest)) this.chosen.delete(digest);
    if (!there.has(this.current)) this.current = this.photos[0]?.digest ?? null;
    this.draw();
  }

  async load(view) {
    if (view.truth !== undefined) return get("cell", { truth: view.truth, answer: view.answer });
    const found = { photos: [], total: 0 };
    do {
      const part = await get("photos", { belongs: view.belongs, offset: found.photos.length, most: PART });
      found.photos.push(...part.photos);
      found.total = part.total;
      if (!part.photos.length) break;
    } while (found.photos.length < Math.min(this.wanted, found.total));
    return found;
  }

  draw() {
    const list = at("gallery"), focused = list.contains(document.activeElement);
    const before = new Map([...list.children].map((item) => [item.dataset.digest, item]));
    const judging = this.judging(), old = (photo) => before.get(photo.digest);
    list.setAttribute("role", judging ? "list" : "listbox");
    if (judging) list.removeAttribute("aria-multiselectable");
    else list.setAttribute("aria-multiselectable", "true");
    arrange(list, this.photos.map((photo) => (judging
      ? review.tile(photo, old(photo), (digest, verb) => this.judge(digest, verb)) : this.item(photo, old(photo)))));
    if (focused) this.focus();
    at("more").hidden = this.photos.length >= this.total;
    at("more").textContent = `Show more (${plural(this.total, "photo")} in all)`;
    this.mark();
  }

  item(photo, old) {
    const item = (old?.getAttribute("role") === "option" ? old : null) ?? make("li", { role: "option", draggable: "true", "data-digest": photo.digest },
      make("img", { src: small(photo.digest), alt: "", loading: "lazy", draggable: "false" }),
      make("span", { class: "guess" }));
    const said = photo.error ? "cannot be read"
      : photo.guess === null ? "" : `${photo.guess} ${percent(photo.probability)}`;
    item.className = photo.doubtful || photo.error ? "doubtful" : "";
    item.title = photo.error ?? photo.name;
    item.setAttribute("aria-label", photo.name + (photo.label && this.view.belongs < 0 ? `, labelled ${photo.label}` : "") + (said ? `, looks like ${said}` : "") + (photo.doubtful ? ", label may be wrong" : ""));
    item.lastChild.textContent = this.said(photo, said);
    return item;
  }

  said(photo, said) {
    if (photo.error || photo.doubtful) return photo.error ? said : `${photo.guess}? ${percent(photo.probability)}`;
    if ([OUTLIERS, TWINS, TESTS].includes(this.view.belongs)) return photo.label;
    return this.view.belongs === UNSORTED ? said : "";
  }

  mark() {
    const judging = this.judging();
    for (const item of at("gallery").children) {
      if (judging) { item.classList.toggle("current", item.dataset.digest === this.current); continue; }
      item.setAttribute("aria-selected", String(this.chosen.has(item.dataset.digest)));
      item.tabIndex = item.dataset.digest === this.current ? 0 : -1;
    }
    const count = this.chosen.size;
    at("selection").textContent = count ? `${plural(count, "photo")} selected` : "";
    at("remove").hidden = at("move-to").hidden = at("aside").hidden = !count;
    at("aside").textContent = this.view.belongs === TESTS ? "Learn from these" : "Keep for testing";
    this.changed();
  }

  judging() { return [SUSPICIOUS, HARD].includes(this.view.belongs) && this.view.truth === undefined; }

  // Accept what is proposed for a photo, keep its label, or go on.
  async judge(digest, verb) {
    const photo = this.photos[this.place(digest)], here = this.place(digest);
    const next = this.photos[here + 1] ?? (verb === "next" ? this.photos[0] : this.photos[here - 1]);
    const to = this.classes().find((one) => one.name === photo.guess);
    if (verb === "accept" && to && await attempt(() => post("move", { photos: [digest], to: to.id })) === null) return;
    if (verb === "keep" && await attempt(() => post("keep", { photos: [digest] })) === null) return;
    this.current = next?.digest ?? null;
    this.chosen.clear();
    if (verb !== "next") await this.refresh();
    this.mark();
    this.focus();
  }

  focus() {
    if (this.judging()) return review.focus(this.current);
    const item = [...at("gallery").children].find((one) => one.dataset.digest === this.current);
    item?.focus();
  }

  clicked(event) {
    const digest = event.target.closest("li")?.dataset.digest;
    if (!digest) return;
    const several = !this.judging(); // else one at a time, to move it to a class that was not proposed
    this.choose(digest, several && event.shiftKey, several && (event.ctrlKey || event.metaKey || event.pointerType === "touch"));
    this.focus();
  }

  choose(digest, range, toggle) {
    if (range && this.anchor) {
      const places = [this.place(this.anchor), this.place(digest)].sort((a, b) => a - b);
      this.chosen = new Set(this.photos.slice(places[0], places[1] + 1).map((photo) => photo.digest));
    } else if (toggle) {
      if (!this.chosen.delete(digest)) this.chosen.add(digest);
      this.anchor = digest;
    } else {
      this.chosen = new Set([digest]);
      this.anchor = digest;
    }
    this.current = digest;
    this.mark();
  }

  dragged(event) {
    const digest = event.target.closest?.("li")?.dataset.digest;
    if (!digest) return;
    if (!this.chosen.has(digest)) this.choose(digest, false, false);
    event.dataTransfer.setData(PHOTOS, JSON.stringify([...this.chosen]));
  }

  place(digest) { return this.photos.findIndex((photo) => photo.digest === digest); }

  columns() {
    const items = [...at("gallery").children];
    const later = items.findIndex((item) => item.offsetTop > items[0].offsetTop);
    return later < 0 ? items.length : later;
  }

  // A key that was pressed on the page; whether it was one of ours.
  key(event, classes) {
    const control = event.ctrlKey || event.metaKey;
    const here = this.place(this.current);
    if (this.judging() && !control && event.key.toLowerCase() in review.KEYS && here >= 0) {
      this.judge(this.current, review.KEYS[event.key.toLowerCase()]);
      return true;
    }
    if (this.judging() && ["Enter", " "].includes(event.key)) return false; // the buttons' own
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns(), ArrowUp: -this.columns() };
    if (event.key in steps && !control && this.photos.length) {
      const inside = at("gallery").contains(document.activeElement);
      if (!inside && document.activeElement !== document.body) return false;
      const next = Math.min(Math.max(here + (inside ? steps[event.key] : 0), 0), this.photos.length - 1);
      this.choose(this.photos[next].digest, event.shiftKey, false);
      this.focus();
    } else if (/^[0-9]$/.test(event.key) && !control && !event.altKey) {
      const to = event.key === "0" ? UNSORTED : classes[Number(event.key) - 1]?.id;
      if (this.judging() && !this.chosen.size && here >= 0) this.chosen.add(this.current); // neither label is right
      if (to === undefined || !this.chosen.size) return false;
      this.move(to);
    } else if ((event.key === "Delete" || event.key === "Backspace") && this.chosen.size) this.remove();
    else if (event.key === "a" && control && this.photos.length) {
      this.chosen = new Set(this.photos.map((photo) => photo.digest));
      this.mark();
    } else if (event.key === "Escape") {
      this.chosen.clear();
      this.mark();
    } else if (event.key === " " && at("gallery").contains(document.activeElement)) this.choose(this.current, false, true);
    else if (event.key === "Enter" && at("gallery").contains(document.activeElement)) this.tried(this.current);
    else return false;
    return true;
  }

  // Where the keys go on once the chosen photos are gone from the list.
  next() {
    const last = Math.max(...[...this.chosen].map((digest) => this.place(digest)));
    return (this.photos.slice(last + 1).find((photo) => !this.chosen.has(photo.digest))
      ?? this.photos.findLast((photo) => !this.chosen.has(photo.digest)))?.digest ?? null;
  }

  async move(to, photos = [...this.chosen]) {
    const next = this.next();
    if (await attempt(() => post("move", { photos, to })) === null) return;
    await this.left(next, to !== this.view.belongs);
  }

  async putAside(photos = [...this.chosen], aside = this.view.belongs !== TESTS) {
    const next = this.next();
    if (await attempt(() => post("aside", { photos, aside })) === null) return;
    await this.left(next, true);
  }

  async remove() {
    const next = this.next();
    if (await attempt(() => post("remove", { photos: [...this.chosen] })) === null) return;
    await this.left(next, true);
  }

  async left(next, gone) {
    if (gone && next !== null) {
      this.current = this.anchor = next;
      this.chosen = new Set([next]);
    }
    await this.refresh();
    this.focus();
  }
}

export { HARD, OUTLIERS, SUSPICIOUS, TESTS, TWINS, UNREADABLE, UNSORTED };
