/** The time, by which ages are told. */

class Clock {
  now = $state(Date.now());

  constructor() {
    setInterval(() => {
      if (!document.hidden) this.now = Date.now();
    }, 1000);
    document.addEventListener("visibilitychange", () => (this.now = Date.now()));
  }
}

export const clock = new Clock();
