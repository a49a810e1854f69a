// A component's namespace: made where it is missing, marked as made by the install, and taken away at the end if
// nothing is in it any more.

import type { OperationContext } from "../define-plugin.ts";
import type { KubeObject } from "./kube-object.ts";
import type { Kubectl } from "./kubectl.ts";

const INSTALL_LABEL = "exclave.dev/install";
const MANAGER = "exclave";

type Context = Pick<OperationContext, "installId" | "log" | "resource">;

export async function keepNamespace(context: Context, kubectl: Kubectl): Promise<void> {
  const namespace = namespaceObject(kubectl.namespace, context.installId);
  const [there] = await kubectl.live([namespace]);
  if (there) return;
  await kubectl.apply([namespace], MANAGER);
  context.resource("created", "Namespace", kubectl.namespace);
}

/** Deletes it if this install made it and it is empty. */
export async function forgetNamespace(context: Context, kubectl: Kubectl): Promise<void> {
  const namespace = namespaceObject(kubectl.namespace, context.installId);
  const [there] = await kubectl.live([namespace]);
  if (there?.metadata.labels?.[INSTALL_LABEL] !== context.installId) return;
  const content = await contentOf(kubectl);
  if (content.length > 0) {
    const some = content.slice(0, 5).join(", ");
    context.log(`the namespace ${kubectl.namespace} is kept: ${some} is in it`, "warn");
    return;
  }
  await kubectl.delete([namespace], DELETE_SECONDS);
  context.resource("destroyed", "Namespace", kubectl.namespace);
}

const DELETE_SECONDS = 120;

async function contentOf(kubectl: Kubectl): Promise<string[]> {
  const kinds = await kubectl.run(["api-resources", "--namespaced", "--verbs=list", "-o", "name"]);
  const names = kinds.stdout.split("\n").filter((name) => name !== "" && !isFleeting(name));
  const place = ["--namespace", kubectl.namespace, "--ignore-not-found", "-o", "name"];
  const { stdout } = await kubectl.run(["get", names.join(","), ...place]);
  return stdout.split("\n").filter((name) => name !== "" && !isBackground(name));
}

function isFleeting(kind: string): boolean {
  return kind === "events" || kind === "events.events.k8s.io" || kind.endsWith(".metrics.k8s.io");
}

/** What a cluster puts into every namespace by itself. */
export function isBackground(name: string): boolean {
  return name === "configmap/kube-root-ca.crt" || name === "serviceaccount/default";
}

function namespaceObject(name: string, installId: string): KubeObject {
  const metadata = { name, labels: { [INSTALL_LABEL]: installId } };
  return { apiVersion: "v1", kind: "Namespace", metadata };
}
