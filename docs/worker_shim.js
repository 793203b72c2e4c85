// Search when the site is opened as files: browsers start no worker from file://, so the
// worker's script runs in a hidden frame instead. docs/site.py puts this file in the
// place of a script that the theme would load from elsewhere.
window.IFrameWorker = class extends EventTarget {
  constructor(url) {
    super();
    const frame = document.createElement("iframe");
    frame.hidden = true;
    document.body.append(frame);
    this.inside = frame.contentWindow;
    this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
    const script = this.inside.document.createElement("script");
    script.src = url;
    this.ready = new Promise((begun) => { script.onload = begun; });
    this.inside.document.body.append(script);
  }

  postMessage(data) {
    this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
  }
};
if (location.protocol === "file:") window.Worker = window.IFrameWorker;
