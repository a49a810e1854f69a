// An object of a Kubernetes API, known by its kind, its place and its name.

import { Failure, readYamlDocuments } from "@exclave/core";
import { z } from "zod";

export const KubeObject = z.looseObject({
  apiVersion: z.string().min(1),
  kind: z.string().min(1),
  metadata: z.looseObject({
    name: z.string().min(1),
    namespace: z.string().optional(),
    labels: z.record(z.string(), z.string()).nullish(),
    annotations: z.record(z.string(), z.string()).nullish(),
  }),
});
export type KubeObject = z.infer<typeof KubeObject>;

const KubeList = z.looseObject({ kind: z.string().endsWith("List"), items: z.array(z.unknown()) });

/** The objects in a manifest, lists taken apart. */
export function readObjects(text: string, name: string): KubeObject[] {
  return readYamlDocuments(text, name).flatMap((value) => objectsIn(value, name));
}

export function objectsIn(value: unknown, name: string): KubeObject[] {
  const list = KubeList.safeParse(value);
  if (list.success) return list.data.items.flatMap((item) => objectsIn(item, name));
  const parsed = KubeObject.safeParse(value);
  if (parsed.success) return [parsed.data];
  const [issue] = parsed.error.issues;
  throw new Failure(
    "invalid",
    `${name} holds what is not a Kubernetes object: ${issue?.path.join(".")}: ${issue?.message}`,
  );
}

/** Without the API's version: the same object may be read and written in several. */
export interface ObjectRef {
  readonly group: string;
  readonly kind: string;
  /** Empty for what lies in no namespace. */
  readonly namespace: string;
  readonly name: string;
}

export function refOf(object: KubeObject): ObjectRef {
  const { apiVersion, kind, metadata } = object;
  const group = apiVersion.includes("/") ? apiVersion.slice(0, apiVersion.indexOf("/")) : "";
  return { group, kind, namespace: metadata.namespace ?? "", name: metadata.name };
}

export function keyOf({ group, kind, namespace, name }: ObjectRef): string {
  return `${kind}.${group}/${namespace}/${name}`;
}

/** As people name it: `Deployment app/web`. */
export function nameOf({ kind, namespace, name }: ObjectRef): string {
  return namespace === "" ? `${kind} ${name}` : `${kind} ${namespace}/${name}`;
}

/** Objects by key. What names no namespace is found under the one that stands for it. */
export function byKey(objects: readonly KubeObject[]): Map<string, KubeObject> {
  return new Map(objects.map((object) => [keyOf(refOf(object)), object]));
}

/** The same objects with labels and annotations of ours. */
export function withMetadata(
  object: KubeObject,
  { labels = {}, annotations = {} }: { labels?: StringMap; annotations?: StringMap },
): KubeObject {
  const { metadata } = object;
  return {
    ...object,
    metadata: {
      ...metadata,
      ...(Object.keys(labels).length > 0 && { labels: { ...metadata.labels, ...labels } }),
      ...(Object.keys(annotations).length > 0 && {
        annotations: { ...metadata.annotations, ...annotations },
      }),
    },
  };
}

type StringMap = Readonly<Record<string, string>>;
