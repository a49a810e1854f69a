// Takes everything of one owner out of an engine: for the end of an install. What is left is said, so that
// "nothing" is what was looked for and not what was hoped.

import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { createEngineClient, type EngineClient, enginePath } from "./engine-client.ts";
import { imageRepository, ownedBy } from "./labels.ts";

export interface EngineContent {
  readonly containers: readonly string[];
  readonly volumes: readonly string[];
  readonly networks: readonly string[];
  readonly images: readonly string[];
}

export interface EngineOwner {
  readonly socket: string;
  readonly owner: string;
}

const Containers = z.array(z.object({ Id: z.string() }));
const Volumes = z.object({ Volumes: z.array(z.object({ Name: z.string() })).nullish() });
const Networks = z.array(z.object({ Name: z.string() }));
const Images = z.array(z.object({ RepoTags: z.array(z.string()).nullish() }));

export async function listEngine({ socket, owner }: EngineOwner): Promise<EngineContent> {
  const engine = createEngineClient(socket);
  const filters = ownedBy(owner);
  const tagged = `${imageRepository(owner)}:`;
  const containers = await engine.read(
    enginePath("/containers/json", { all: 1, filters }),
    Containers,
  );
  const volumes = await engine.read(enginePath("/volumes", { filters }), Volumes);
  const networks = await engine.read(enginePath("/networks", { filters }), Networks);
  const images = await engine.read("/images/json", Images);
  return {
    containers: containers.map(({ Id }) => Id),
    volumes: (volumes.Volumes ?? []).map(({ Name }) => Name),
    networks: networks.map(({ Name }) => Name),
    images: images.flatMap(({ RepoTags }) =>
      (RepoTags ?? []).filter((tag) => tag.startsWith(tagged)),
    ),
  };
}

/** Kills what runs; whoever wants a grace gives it before. Says what could not be removed. */
export async function clearEngine(whose: EngineOwner): Promise<EngineContent> {
  const engine = createEngineClient(whose.socket);
  const { containers, volumes, networks, images } = await listEngine(whose);
  const drop = (path: string) => dropPatiently(engine, path);
  for (const id of containers) await drop(enginePath(`/containers/${id}`, { force: 1 }));
  for (const name of volumes) await drop(`/volumes/${name}`);
  for (const name of networks) await drop(`/networks/${name}`);
  // A name at a time: an image that another owner has, too, stays theirs.
  for (const tag of images) await drop(`/images/${encodeURIComponent(tag)}`);
  return listEngine(whose);
}

const TRIES = 20;

/** An engine refuses to remove a container that ends at the same moment, and not a moment later. */
async function dropPatiently(engine: EngineClient, path: string): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await engine.send("DELETE", path, { expected: [404, 409] });
      return;
    } catch (reason) {
      if (tries >= TRIES) throw reason;
    }
    await sleep(250);
  }
}
