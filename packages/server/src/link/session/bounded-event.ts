// An agent's event with its texts cut to what is worth keeping: they go into rows and onto the record.

import { type AgentEvent, EVENT_TEXT_MAX } from "@exclave/api";

const FOUND_MAX = 1_000;
const IMAGES_MAX = 500;

export function boundedEvent(event: AgentEvent): AgentEvent {
  switch (event.type) {
    case "job_rejected":
      return { ...event, because: cut(event.because) };
    case "alarm":
      return { ...event, code: cut(event.code, 100), because: cut(event.because) };
    case "health":
      return {
        ...event,
        because: cut(event.because),
        ...(event.drift ? { drift: { ...event.drift, summary: cut(event.drift.summary) } } : {}),
      };
    case "job_ended": {
      const { outcome } = event;
      if (outcome.kind === "failed") {
        return { ...event, outcome: { ...outcome, message: cut(outcome.message) } };
      }
      if (outcome.kind !== "unknown") return event;
      return { ...event, outcome: { ...outcome, because: cut(outcome.because) } };
    }
    case "inventory":
      return { ...event, jobs: event.jobs.slice(0, FOUND_MAX) };
    case "images_published":
      return { ...event, images: event.images.slice(0, IMAGES_MAX) };
    default:
      return event;
  }
}

function cut(text: string, max = EVENT_TEXT_MAX): string {
  return text.length > max ? `${text.slice(0, max)}…` : text;
}
