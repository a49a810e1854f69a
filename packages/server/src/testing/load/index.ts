// What the bench needs to put a server under load. Not part of the public surface.

export { moveToPostgres } from "../../store/move/move-to-postgres.ts";
export {
  endProcess,
  processorMs,
  residentBytes,
  type ServerProcess,
  startServerProcess,
  withChildren,
} from "../server-process.ts";
export {
  createFleet,
  createPeople,
  type FleetOptions,
  type People,
  type RunningFleet,
  until,
} from "./fleet.ts";
export { openPlannerScale } from "./planner-scale.ts";
export { APP, CHANNEL, type Fleet, seedFleet } from "./seed-fleet.ts";
