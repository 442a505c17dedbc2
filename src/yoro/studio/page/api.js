// Requests to the studio or the desk, which holds the state; the page only shows it.

import { clear, tell } from "./elements.js";

const { api: API = "/studio/api/", verb = "studio" } = document.documentElement.dataset;

async function read(answer) {
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(body.error || `Error ${answer.status}.`);
  return body;
}

export async function get(path, query = {}, signal = undefined) {
  return read(await fetch(API + path + "?" + new URLSearchParams(query), { signal }));
}

// What was said before an action that succeeds is settled.
async function acted(path, request) {
  const answer = await read(await fetch(API + path, { method: "POST", ...request }));
  if (!path.startsWith("try")) clear();
  return answer;
}

export function post(path, body = {}) {
  return acted(path, { headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
}

export function send(path, form, query = {}) {
  return acted(path + "?" + new URLSearchParams(query), { body: form });
}

export async function image(path, query, form = undefined) {
  const answer = await fetch(API + path + "?" + new URLSearchParams(query), form && { method: "POST", body: form });
  return answer.ok ? answer.blob() : read(answer);
}

export const reason = (error) => (error instanceof TypeError
  ? `No response. Is yoro ${verb} still running? What it has received is saved.` : error.message);

// Do something that may fail, and say so if it does.
export async function attempt(doing) {
  try {
    return await doing();
  } catch (error) {
    tell(reason(error));
    return null;
  }
}
