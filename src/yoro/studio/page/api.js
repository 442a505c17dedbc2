// Requests to the studio or the desk, which holds the state; the page only shows it.

import { tell } from "./elements.js";

const { api: API = "/studio/api/", verb = "studio" } = document.documentElement.dataset;

async function read(answer) {
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(body.error || `Error ${answer.status}.`);
  return body;
}

export async function get(path, query = {}, signal = undefined) {
  return read(await fetch(API + path + "?" + new URLSearchParams(query), { signal }));
}

export async function post(path, body = {}) {
  const headers = { "content-type": "application/json" };
  return read(await fetch(API + path, { method: "POST", headers, body: JSON.stringify(body) }));
}

export async function send(path, form, query = {}) {
  return read(await fetch(API + path + "?" + new URLSearchParams(query), { method: "POST", body: form }));
}

// Do something that may fail, and say so if it does.
export async function attempt(doing) {
  try {
    return await doing();
  } catch (error) {
    const gone = error instanceof TypeError;
    tell(gone ? `No response. Is \`yoro ${verb}\` still running? Your work is saved.` : error.message);
    return null;
  }
}
