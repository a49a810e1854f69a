// What every server says of its own process, and how late its event loop is.

import { readdirSync } from "node:fs";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { type Instruments, one, type Reading } from "./instruments.ts";

export function addProcess(instruments: Instruments): { close(): void } {
  const delay = monitorEventLoopDelay({ resolution: 10 });
  delay.enable();
  instruments.gauge("process_resident_memory_bytes", "Resident memory.", () =>
    one(process.memoryUsage.rss()),
  );
  instruments.count("process_cpu_seconds_total", "Processor time, user and system.", () => {
    const { user, system } = process.cpuUsage();
    return one((user + system) / 1e6);
  });
  instruments.gauge("process_start_time_seconds", "When the process began, since 1970.", () =>
    one(Math.round(performance.timeOrigin / 1_000)),
  );
  instruments.gauge("process_open_fds", "Open file descriptors, where the system tells.", openFds);
  instruments.gauge(
    "nodejs_eventloop_delay_seconds",
    "How late the event loop was since the last reading of this page.",
    () => {
      const quantiles = [50, 99, 100].map((percent) => ({
        labels: { quantile: String(percent / 100) },
        value: delay.count === 0 ? 0 : delay.percentile(percent) / 1e9,
      }));
      delay.reset();
      return quantiles;
    },
  );
  return { close: () => void delay.disable() };
}

function openFds(): readonly Reading[] {
  try {
    return one(readdirSync("/proc/self/fd").length);
  } catch {
    return [];
  }
}
