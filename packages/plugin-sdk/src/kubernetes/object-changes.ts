// What an apply would change, from two facts: the objects as they are and as the API server says they would
// be. Pure. Values of a Secret are never part of what is said.

import { type KubeObject, keyOf, nameOf, type ObjectRef } from "./kube-object.ts";

export interface FieldChange {
  readonly path: string;
  readonly from: unknown;
  readonly to: unknown;
}

export type ObjectChange = { readonly object: ObjectRef } & (
  | { readonly action: "create" | "delete" }
  | { readonly action: "change"; readonly fields: readonly FieldChange[] }
);

export interface ChangeInput {
  /** Wanted objects, each as it is in the cluster and as it would be; both absent where it cannot be known yet. */
  readonly wanted: readonly {
    readonly ref: ObjectRef;
    readonly live: KubeObject | undefined;
    readonly next: KubeObject | undefined;
  }[];
  /** What is there, is ours, and is wanted no more. */
  readonly unwanted: readonly ObjectRef[];
}

export function findChanges({ wanted, unwanted }: ChangeInput): ObjectChange[] {
  const changes = wanted.flatMap(({ ref, live, next }): ObjectChange[] => {
    if (!live) return [{ object: ref, action: "create" }];
    const fields = next ? changedFields(live, next) : [];
    return fields.length === 0 ? [] : [{ object: ref, action: "change", fields }];
  });
  return [...changes, ...unwanted.map((object) => ({ object, action: "delete" as const }))];
}

/** Written by the API server and its controllers, and so no change that somebody wants. */
const SERVER_METADATA = new Set([
  "creationTimestamp",
  "deletionGracePeriodSeconds",
  "generation",
  "managedFields",
  "resourceVersion",
  "selfLink",
  "uid",
]);
const CONTROLLER_ANNOTATIONS = new Set([
  "deployment.kubernetes.io/revision",
  "kubectl.kubernetes.io/last-applied-configuration",
]);

export function changedFields(live: KubeObject, next: KubeObject): FieldChange[] {
  const found: FieldChange[] = [];
  compare(comparable(live), comparable(next), "", found);
  return next.kind === "Secret" ? found.map(hideValue) : found;
}

function comparable({ metadata, ...object }: KubeObject): Record<string, unknown> {
  const rest = Object.entries(object).filter(([name]) => name !== "status");
  const annotations = Object.entries(metadata.annotations ?? {}).filter(
    ([name]) => !CONTROLLER_ANNOTATIONS.has(name),
  );
  const kept = Object.entries(metadata).filter(([name]) => !SERVER_METADATA.has(name));
  return {
    ...Object.fromEntries(rest),
    metadata: { ...Object.fromEntries(kept), annotations: Object.fromEntries(annotations) },
  };
}

function compare(from: unknown, to: unknown, path: string, found: FieldChange[]): void {
  if (isRecord(from) && isRecord(to)) {
    for (const name of new Set([...Object.keys(from), ...Object.keys(to)])) {
      compare(from[name], to[name], path === "" ? name : `${path}.${name}`, found);
    }
    return;
  }
  if (Array.isArray(from) && Array.isArray(to)) {
    for (let index = 0; index < Math.max(from.length, to.length); index += 1) {
      compare(
        from[index],
        to[index],
        `${path}[${labelOf(from[index], to[index]) ?? index}]`,
        found,
      );
    }
    return;
  }
  if (isEmpty(from) && isEmpty(to)) return;
  if (from !== to) found.push({ path, from, to });
}

/** A list's item by its name where it has one, which says more than its place. */
function labelOf(from: unknown, to: unknown): string | undefined {
  const one = isRecord(from) ? from.name : undefined;
  const other = isRecord(to) ? to.name : undefined;
  const name = one ?? other;
  return typeof name === "string" && (one === undefined || other === undefined || one === other)
    ? name
    : undefined;
}

/** Absent, null and empty mean the same to an API server. */
function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null) return true;
  if (Array.isArray(value)) return value.length === 0;
  return isRecord(value) && Object.values(value).every(isEmpty);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const HIDDEN = "(hidden)";

function hideValue(change: FieldChange): FieldChange {
  if (!/^(data|stringData)(\.|$)/.test(change.path)) return change;
  const hide = (value: unknown) => (value === undefined ? undefined : HIDDEN);
  return { path: change.path, from: hide(change.from), to: hide(change.to) };
}

export interface ChangeSummary {
  readonly risk: "none" | "change" | "destroy";
  readonly summary: string;
}

export function summariseChanges(changes: readonly ObjectChange[]): ChangeSummary {
  const count = (wanted: ObjectChange["action"]) =>
    changes.filter(({ action }) => action === wanted).length;
  const summary = `${count("create")} to add, ${count("change")} to change, ${count("delete")} to destroy`;
  if (count("delete") > 0) return { risk: "destroy", summary };
  return { risk: changes.length > 0 ? "change" : "none", summary };
}

const FIELDS_SHOWN = 20;
const VALUE_CHARS = 120;

/** A line for each object, and one for each of its first changed fields. */
export function describeChanges(changes: readonly ObjectChange[]): string[] {
  return changes.flatMap((change) => {
    const name = nameOf(change.object);
    if (change.action !== "change") return [`${change.action === "create" ? "+" : "-"} ${name}`];
    const shown = change.fields.slice(0, FIELDS_SHOWN).map(describeField);
    const left = change.fields.length - shown.length;
    return [`~ ${name}`, ...shown, ...(left > 0 ? [`    and ${left} more fields`] : [])];
  });
}

function describeField({ path, from, to }: FieldChange): string {
  return `    ${path}: ${showValue(from)} → ${showValue(to)}`;
}

function showValue(value: unknown): string {
  const text = value === undefined ? "(none)" : JSON.stringify(value);
  return text.length > VALUE_CHARS ? `${text.slice(0, VALUE_CHARS)}…` : text;
}

/**
 * What two looks at the same change have in common. The values that are replaced are left out: an autoscaler
 * moves them all the time, and what the change leads to is the same.
 */
export function changeFacts(changes: readonly ObjectChange[]): string[] {
  return changes
    .map((change) => {
      const fields =
        change.action === "change"
          ? change.fields.map(({ path, to }) => `${path}=${JSON.stringify(to)}`).toSorted()
          : [];
      return JSON.stringify([change.action, keyOf(change.object), ...fields]);
    })
    .toSorted();
}

const DRIFT_SHOWN = 5;

/** What differs between the world and what was applied; undefined when nothing does. */
export function summariseDrift(changes: readonly ObjectChange[]): string | undefined {
  if (changes.length === 0) return undefined;
  const what = changes.map((change) => {
    const name = nameOf(change.object);
    if (change.action !== "change") return `${name} is gone`;
    const [first] = change.fields;
    return `${name} was changed (${first?.path})`;
  });
  const shown = what.slice(0, DRIFT_SHOWN).join(", ");
  const rest = what.length > DRIFT_SHOWN ? ` and ${what.length - DRIFT_SHOWN} more` : "";
  return `changed outside Exclave: ${shown}${rest}`;
}
