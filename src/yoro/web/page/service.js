// Keeps a copy of the page for when there is no network, and lets nothing be asked of anybody else.

const CACHE = `yoro ${self.registration.scope}`;

self.addEventListener("install", (event) => {
  event.waitUntil(keepAll().then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => {
  event.waitUntil(self.clients.claim());
});

self.addEventListener("fetch", (event) => {
  const { request } = event;
  if (new URL(request.url).origin !== self.location.origin) event.respondWith(Response.error());
  else if (request.method === "GET") event.respondWith(fresh(request));
});

async function keepAll() {
  const facts = await (await fetch("model.json")).json();
  const cache = await caches.open(CACHE);
  await cache.addAll(["./", "model.json", ...Object.keys(facts.files)]);
}

// What the server has now, or its word that the copy is still good; without a server, the copy.
async function fresh(request) {
  const cache = await caches.open(CACHE);
  const opens = request.mode === "navigate"; // then the browser itself must see a redirection
  try {
    const response = await fetch(opens ? request : new Request(request.url, { cache: "no-cache" }));
    if (response.status === 200 && !response.redirected) await cache.put(request.url, response.clone());
    return response;
  } catch {
    return (await cache.match(opens ? "./" : request.url, { ignoreSearch: true })) ?? Response.error();
  }
}
