// Time that passes. Whatever waits is handed this, so that a simulation can let days pass at once.

export interface Timers {
  /** Resolves after that time; rejects with the signal's reason when it fires first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Does the work once, after that time, unless it is called off. Keeps no process alive. */
  after(ms: number, work: () => void): CallOff;
  /** Does the work again and again until it is called off. */
  every(ms: number, work: () => void): CallOff;
}

export type CallOff = () => void;

export function createSystemTimers(): Timers {
  return {
    sleep,
    after(ms, work) {
      const timer = setTimeout(work, ms);
      // A browser's timer is a number, and keeps nothing alive.
      (timer as { unref?: () => void }).unref?.();
      return () => clearTimeout(timer);
    },
    every(ms, work) {
      const timer = setInterval(work, ms);
      return () => clearInterval(timer);
    },
  };
}

function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason as Error);
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, ms);
    const onAbort = () => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}
