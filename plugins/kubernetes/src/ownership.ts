// Which objects are a component's own. An object is, if an apply of the component put its label on it; everything
// else belongs to somebody else and is neither changed nor deleted. Pure.

import { Failure } from "@exclave/plugin-sdk";
import {
  type KubeObject,
  keyOf,
  nameOf,
  type ObjectRef,
  refOf,
  withMetadata,
} from "@exclave/plugin-sdk/kubernetes";

const OWNER_LABEL = "exclave.dev/component";

/** As a label may spell it. */
export function ownerName(installId: string, component: string): string {
  return `${installId}.${component}`.slice(0, 63);
}

export function marked(object: KubeObject, owner: string): KubeObject {
  return withMetadata(object, { labels: { [OWNER_LABEL]: owner } });
}

export function isOwnedBy(object: KubeObject, owner: string): boolean {
  return object.metadata.labels?.[OWNER_LABEL] === owner;
}

/** Refuses objects that somebody else made, unless they may be taken over. */
export function refuseForeign(
  live: readonly (KubeObject | undefined)[],
  owner: string,
  adopt: boolean,
): void {
  const foreign = live.find((object) => object !== undefined && !isOwnedBy(object, owner));
  if (!foreign) return;
  const name = nameOf(refOf(foreign));
  const other = foreign.metadata.labels?.[OWNER_LABEL];
  if (other !== undefined) {
    throw new Failure("conflict", `${name} belongs to another component, ${other}`);
  }
  if (adopt) return;
  const message = `${name} is in the cluster already and is not this component's; say adopt: true to take it over`;
  throw new Failure("conflict", message);
}

/** What was owned and is wanted no more: there, and still ours. */
export function findUnwanted(
  owned: readonly KubeObject[],
  live: readonly (KubeObject | undefined)[],
  wanted: readonly ObjectRef[],
  owner: string,
): KubeObject[] {
  const keys = new Set(wanted.map(keyOf));
  return owned.flatMap((_, index) => {
    const object = live[index];
    return object && isOwnedBy(object, owner) && !keys.has(keyOf(refOf(object))) ? [object] : [];
  });
}

/** Kinds that others stand on come first. */
const FIRST = [
  ["Namespace"],
  ["CustomResourceDefinition"],
  ["ServiceAccount", "ConfigMap", "Secret", "StorageClass", "PersistentVolumeClaim"],
  ["ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"],
];

/** Objects in the order in which they are applied; the other way round they are deleted. */
export function phasesOf(objects: readonly KubeObject[]): KubeObject[][] {
  const phaseOf = ({ kind }: KubeObject) => {
    const at = FIRST.findIndex((kinds) => kinds.includes(kind));
    return at < 0 ? FIRST.length : at;
  };
  return Array.from({ length: FIRST.length + 1 }, (_, phase) =>
    objects.filter((object) => phaseOf(object) === phase),
  ).filter((phase) => phase.length > 0);
}

/** Of several objects of one name the last counts, which nobody means. */
export function refuseTwice(objects: readonly KubeObject[], namespace: string): void {
  const seen = new Set<string>();
  for (const object of objects) {
    const ref = refOf(object);
    const key = keyOf({ ...ref, namespace: ref.namespace || namespace });
    if (seen.has(key)) {
      throw new Failure("invalid", `${nameOf(ref)} is in the manifests twice`);
    }
    seen.add(key);
  }
}
