// Whether two deploys of a component would be the same deploy.

import { digestOf } from "../encoding/sha256.ts";
import type { ComponentName, Digest } from "../ids.ts";
import type { SeenComponent, WantedComponent } from "./install-state.ts";

/**
 * One digest over everything a deploy is made of: the bytes, the plugin, the configuration as it was
 * written, the inputs it uses, and the outputs it uses as they are now.
 */
export function deployKey(
  component: WantedComponent,
  seen: ReadonlyMap<ComponentName, SeenComponent>,
): Digest {
  const { type, artifact, plugin, config, inputs, references } = component;
  const outputs = references
    .toSorted()
    .map((name) => [name, seen.get(name)?.deployed?.outputsDigest ?? null]);
  return digestOf({
    type,
    artifact: artifact?.digest ?? null,
    plugin: plugin.digest,
    config,
    inputs,
    outputs,
  });
}
