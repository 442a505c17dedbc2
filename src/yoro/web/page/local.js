// Answers of the model in this page, computed by a worker beside it.

const mega = (bytes) => (bytes / 1e6).toFixed(1);

export class Answers {
  constructor(facts) {
    this.facts = facts;
    this.waiting = new Map(); // of questions to the worker, by number
    this.asked = 0;
  }

  // Resolves once the model is loaded; `loading` hears how far it is, `fail` what goes wrong.
  start(loading, fail) {
    this.worker = new Worker("worker.js", { type: "module" });
    this.worker.onerror = (event) => fail(event.message || "This browser could not start the page's background worker.");
    return new Promise((good, bad) => {
      this.worker.onmessage = ({ data }) => {
        if (data.total) loading(`Loading the model: ${mega(data.loaded)} of ${mega(data.total)} MB`, data.loaded / data.total);
        else if (data.starting) loading("Starting the model…", null);
        else if (data.ready) good();
        else if (data.id === null) bad(new Error(data.error));
        else this.heard(data);
      };
      this.worker.postMessage({ facts: this.facts });
    });
  }

  heard(data) {
    const { give, refuse } = this.waiting.get(data.id);
    this.waiting.delete(data.id);
    if (data.error) refuse(new Error(data.error));
    else give(data);
  }

  // The answer to a file, or to a frame of the camera.
  ask(question, transfer = []) {
    const id = ++this.asked;
    return new Promise((give, refuse) => {
      this.waiting.set(id, { give, refuse });
      this.worker.postMessage({ id, ...question }, transfer);
    });
  }
}
