// Starts a job's container, once. A job is two things in the engine, both named after it: a volume with its
// files, and a container. The volume comes first and goes last; a container that was made by an earlier
// life and never started is taken over.

import { Failure } from "@exclave/core";
import {
  enginePath,
  jobLabels,
  LABELS,
  type Labels,
  type Owner,
  ownedArchive,
  plainPath,
  stateLabels,
} from "@exclave/machine/engine";
import type { JobSpec } from "../job-runtime.ts";
import { processTable } from "../process/process-table.ts";
import { containerOrder, JOB_PATH, STATE_PATH } from "./container-order.ts";
import { type Container, wasStarted } from "./container-run.ts";
import { engineName, findContainer, type PodmanPlace, readVerdict } from "./podman-place.ts";

/** Nobody on this machine, and the same nobody for every class that shares a component's state. */
const NOBODY = "65532:65532";

/** False when there was nothing to start: it ran already, or was stopped before it could. */
export async function startContainer(
  place: PodmanPlace,
  spec: JobSpec,
  notes: readonly string[],
): Promise<boolean> {
  const before = await findContainer(place, spec.name);
  if (before && (wasStarted(before) || (await readVerdict(place, spec.name)))) return false;
  const { Id } = before ?? (await createContainer(place, spec, notes));
  await giveFiles(place, Id, spec);
  // By id: a request that outlives whoever sent it reaches this container, and no later one of its name.
  await place.engine.send("POST", `/containers/${Id}/start`, { expected: [304] });
  return true;
}

async function createContainer(
  place: PodmanPlace,
  spec: JobSpec,
  notes: readonly string[],
): Promise<Container> {
  const { engine, owner, images, network, socketVolume, userNamespace } = place;
  const image = await images.provide(spec.image);
  const name = engineName(place, spec.name);
  const labels = jobLabels(owner, spec.name);
  const state = spec.stateVolume === undefined ? undefined : plainPath(spec.stateVolume);
  const stateVolume = state && `${owner}-state-${state.replaceAll("/", "-")}`;
  await makeVolume(place, name, labels);
  if (stateVolume) await makeVolume(place, stateVolume, stateLabels(owner, state));
  const order = containerOrder(spec, {
    image,
    owner: identityOf(place, spec),
    jobVolume: name,
    stateVolume,
    network,
    socketVolume,
    userNamespace,
    labels: {
      ...labels,
      [LABELS.jobClass]: spec.jobClass,
      [LABELS.deadlineMs]: String(spec.deadlineMs),
      [LABELS.logBytesMax]: String(spec.limits.logBytesMax ?? ""),
      [LABELS.memoryKills]: String(processTable.memoryKills()),
      [LABELS.notes]: notes.map((note) => `exclave: ${note}\n`).join(""),
    },
  });
  // A name is given once: whoever came first has made it.
  const path = enginePath("/containers/create", { name });
  await engine.send("POST", path, { json: order, expected: [409] });
  const made = await findContainer(place, spec.name);
  if (!made)
    throw new Failure("unavailable", `the container of ${spec.name} is gone as it was made`);
  return made;
}

/** One that is there already is left as it is. */
async function makeVolume({ engine }: PodmanPlace, name: string, labels: Labels): Promise<void> {
  await engine.send("POST", "/volumes/create", {
    json: { Name: name, Labels: labels },
    expected: [409],
  });
}

/** Into its volumes, through the engine: a job shares no disk with whoever starts it. */
async function giveFiles(place: PodmanPlace, id: string, spec: JobSpec): Promise<void> {
  const who = identityOf(place, spec);
  const archives: [string, Buffer][] = [
    [JOB_PATH, ownedArchive({ owner: who, directories: ["tmp"], files: spec.files })],
  ];
  if (spec.stateVolume !== undefined) archives.push([STATE_PATH, ownedArchive({ owner: who })]);
  for (const [path, archive] of archives) {
    const target = enginePath(`/containers/${id}/archive`, { path });
    await place.engine.send("PUT", target, { archive });
  }
}

function identityOf({ identities }: PodmanPlace, { jobClass }: JobSpec): Owner {
  const text = identities[jobClass] ?? NOBODY;
  const [, uid, gid] = /^([1-9][0-9]{0,9}):([1-9][0-9]{0,9})$/.exec(text) ?? [];
  if (uid !== undefined && gid !== undefined) return { uid: Number(uid), gid: Number(gid) };
  throw new Failure(
    "invalid",
    `${text} is no user that a job may be: give UID:GID, and not root's`,
  );
}
