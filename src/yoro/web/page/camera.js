// The camera: one frame after another is answered, as quickly as the device can.

export class Camera {
  constructor(video, answer) {
    this.video = video;
    this.answer = answer; // a frame in, a promise out; null if nobody watches
    this.stream = null;
  }

  get open() {
    return this.stream !== null;
  }

  async start() {
    this.stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" }, audio: false });
    this.video.srcObject = this.stream;
    await this.video.play();
    if (this.answer) this.watch(this.stream);
  }

  stop() {
    this.stream?.getTracks().forEach((track) => track.stop());
    this.stream = null;
    this.video.srcObject = null;
  }

  async watch(stream) {
    while (this.stream === stream) {
      await new Promise((next) => requestAnimationFrame(next)); // none come while the page is hidden
      if (this.stream === stream && this.video.videoWidth) await this.answer(this.frame());
    }
  }

  drawn() {
    const canvas = document.createElement("canvas");
    canvas.width = this.video.videoWidth;
    canvas.height = this.video.videoHeight;
    canvas.getContext("2d", { willReadFrequently: true }).drawImage(this.video, 0, 0);
    return canvas;
  }

  frame() {
    const canvas = this.drawn();
    const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return { data, width, height };
  }

  // What is seen now, as a file.
  async picture(name, type = "image/png") {
    const blob = await new Promise((give) => this.drawn().toBlob(give, type, 0.92));
    return new File([blob], name, { type });
  }
}
