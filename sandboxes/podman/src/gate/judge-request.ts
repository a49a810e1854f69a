// What the agent and its jobs may ask of the engine. Whoever has an engine's socket is root on its machine, so
// nobody of the install has it: they speak to the gate, which lets through what concerns this install alone. What is
// not named here is refused.

import { z } from "@exclave/plugin-sdk";
import { imageRepository, LABELS } from "@exclave/plugin-sdk/engine";
import { containerOrder, execOrder, volumeOrder } from "./orders.ts";

export type Caller =
  | { readonly kind: "agent" }
  /** A job may have to do with its own component's long-running containers. */
  | { readonly kind: "job"; readonly component: string };

export interface GateRules {
  readonly owner: string;
  /** What a container may be on, beside none. */
  readonly network: string;
}

export interface GateRequest {
  readonly method: string;
  /** As it was sent, with the version and the query. */
  readonly url: string;
  /** Of a request that has one as JSON. */
  readonly body?: unknown;
}

export type Verdict =
  | { readonly kind: "pass" }
  /** If the container is the caller's, and by its id. */
  | { readonly kind: "container"; readonly container: string; readonly rest: string }
  /** If the image is one of this install's. */
  | { readonly kind: "create"; readonly image: string }
  /** If the command runs in a container of the caller's. */
  | { readonly kind: "exec"; readonly exec: string }
  /** An archive of images, each named as one of this install's. */
  | { readonly kind: "load" }
  | { readonly kind: "refuse"; readonly because: string };

const NAME = "[a-zA-Z0-9][a-zA-Z0-9_.-]{0,254}";
const CONTAINER = new RegExp(`^/containers/(${NAME})(/[a-z]+)?$`);
const IMAGE = /^\/images\/((?:[a-zA-Z0-9_./:-]|%3A|%2F)+)\/json$/;
const VOLUME = new RegExp(`^/volumes/(${NAME})$`);
const EXEC = /^\/exec\/([0-9a-f]{64})\/(start|json)$/;

const ALLOWED: Readonly<Record<Caller["kind"], readonly string[]>> = {
  agent: [
    "GET /json",
    "GET /logs",
    "GET /top",
    "POST /start",
    "POST /kill",
    "PUT /archive",
    "DELETE ",
  ],
  job: [
    "GET /json",
    "GET /logs",
    "POST /start",
    "POST /stop",
    "POST /restart",
    "POST /kill",
    "POST /exec",
    "PUT /archive",
    "DELETE ",
  ],
};

export function judgeRequest(request: GateRequest, caller: Caller, rules: GateRules): Verdict {
  const [, path, query] = /^\/v1\.41(\/[^?]*)(?:\?(.*))?$/.exec(request.url) ?? [];
  if (path === undefined) return refuse("only version 1.41 of Docker's API is spoken here");
  const asked = { ...request, path, query: new URLSearchParams(query) };
  const { method } = request;
  switch (`${method} ${path}`) {
    case "GET /info":
      return { kind: "pass" };
    case "GET /containers/json":
    case "GET /volumes":
      return judgeList(asked, caller, rules);
    case "POST /containers/create":
      return judgeCreate(asked, caller, rules);
    case "POST /volumes/create":
      return judgeVolume(asked, caller, rules);
    case "POST /images/load":
      return caller.kind === "agent" ? { kind: "load" } : refuse("only the agent loads images");
    default:
      return judgeOne(asked, caller, rules);
  }
}

interface Asked extends GateRequest {
  readonly path: string;
  readonly query: URLSearchParams;
}

function judgeOne({ method, path, body }: Asked, caller: Caller, rules: GateRules): Verdict {
  const [, container, rest = ""] = CONTAINER.exec(path) ?? [];
  if (container !== undefined) {
    if (!ALLOWED[caller.kind].includes(`${method} ${rest}`)) return unknown(method, path);
    if (rest === "/exec") {
      const problem = problemOf(execOrder, body);
      if (problem !== undefined) return refuse(`this command may not be run: ${problem}`);
    } else if (body !== undefined) return refuse(`${method} ${rest} takes no body here`);
    return { kind: "container", container, rest };
  }
  const [, image] = IMAGE.exec(path) ?? [];
  if (image !== undefined && method === "GET") return judgeImage(image, rules);
  const [, volume] = VOLUME.exec(path) ?? [];
  if (volume !== undefined && method === "DELETE") {
    return isOwnVolume(volume, caller, rules)
      ? { kind: "pass" }
      : refuse(`${volume} is not the caller's`);
  }
  const [, exec, what] = EXEC.exec(path) ?? [];
  const isExec = exec !== undefined && method === (what === "start" ? "POST" : "GET");
  if (isExec && caller.kind === "job") return { kind: "exec", exec };
  return unknown(method, path);
}

/** Lists only what is the caller's: the filter has to say so. */
function judgeList({ query }: Asked, caller: Caller, rules: GateRules): Verdict {
  const Filters = z.object({ label: z.array(z.string()) });
  const filters = Filters.safeParse(readJson(query.get("filters"))).data;
  const wanted = Object.entries(labelsOf(caller, rules)).map(([name, value]) => `${name}=${value}`);
  const isOwn = wanted.every((label) => filters?.label.includes(label));
  return isOwn ? { kind: "pass" } : refuse(`a list has to be filtered by ${wanted.join(" and ")}`);
}

function judgeCreate({ query, body }: Asked, caller: Caller, rules: GateRules): Verdict {
  const name = query.get("name") ?? "";
  const isNamed =
    caller.kind === "agent"
      ? name.startsWith(`${rules.owner}-j-`)
      : name.startsWith(servicePrefix(caller.component, rules));
  if (!isNamed) return refuse(`${name || "no name"} is no name of the caller's`);
  const order = containerOrder({ network: rules.network }).safeParse(body);
  if (!order.success) return refuse(`this container may not be made: ${firstProblem(order.error)}`);
  const { Image, Labels, HostConfig } = order.data;
  for (const [label, value] of Object.entries(labelsOf(caller, rules))) {
    if (Labels[label] !== value) return refuse(`it has to be labelled ${label}=${value}`);
  }
  if (Labels[LABELS.system] !== undefined) return refuse("it is no part of the sandbox");
  const isJob = Labels[LABELS.job] !== undefined;
  if (isJob !== (caller.kind === "agent"))
    return refuse("only the agent makes jobs, and only jobs");
  for (const { Source, ReadOnly } of HostConfig.Mounts) {
    const isSockets = Source === `${rules.owner}-sockets` && caller.kind === "agent" && ReadOnly;
    if (!isSockets && !isOwnVolume(Source, caller, rules)) {
      return refuse(`the volume ${Source} is not the caller's`);
    }
  }
  return { kind: "create", image: Image };
}

function judgeVolume({ body }: Asked, caller: Caller, rules: GateRules): Verdict {
  const order = volumeOrder.safeParse(body);
  if (!order.success) return refuse(`this volume may not be made: ${firstProblem(order.error)}`);
  const { Name, Labels } = order.data;
  if (!isOwnVolume(Name, caller, rules)) return refuse(`${Name} is no name of the caller's`);
  return Labels[LABELS.owner] === rules.owner
    ? { kind: "pass" }
    : refuse(`it has to be labelled ${LABELS.owner}=${rules.owner}`);
}

function judgeImage(name: string, { owner }: GateRules): Verdict {
  const plain = decodeURIComponent(name);
  const isOwn = /^sha256:[0-9a-f]{64}$/.test(plain) || isOwnTag(plain, owner);
  return isOwn ? { kind: "pass" } : refuse(`${plain} is no image of this install`);
}

export function isOwnTag(tag: string, owner: string): boolean {
  return tag.startsWith(`${imageRepository(owner)}:`);
}

/** Whether a container that is there is the caller's to touch. */
export function isCallers(
  labels: Readonly<Record<string, string>>,
  caller: Caller,
  rules: GateRules,
): boolean {
  const wanted = Object.entries(labelsOf(caller, rules));
  const isJob = labels[LABELS.job] !== undefined;
  return (
    wanted.every(([name, value]) => labels[name] === value) &&
    labels[LABELS.system] === undefined &&
    isJob === (caller.kind === "agent")
  );
}

function labelsOf(caller: Caller, { owner }: GateRules): Record<string, string> {
  const own = { [LABELS.owner]: owner };
  return caller.kind === "agent" ? own : { ...own, [LABELS.component]: caller.component };
}

/** The separator is in no component's name, so that one's prefix is not another's. */
function servicePrefix(component: string, { owner }: GateRules): string {
  return `${owner}-service-${component}.`;
}

function isOwnVolume(name: string, caller: Caller, rules: GateRules): boolean {
  const { owner } = rules;
  if (caller.kind === "agent") {
    return name.startsWith(`${owner}-j-`) || name.startsWith(`${owner}-state-`);
  }
  return (
    name === `${owner}-state-${caller.component}` ||
    name.startsWith(servicePrefix(caller.component, rules))
  );
}

function unknown(method: string, path: string): Verdict {
  return refuse(`${method} ${path} is not for this install to ask`);
}

function refuse(because: string): Verdict {
  return { kind: "refuse", because };
}

function problemOf(schema: z.ZodType, body: unknown): string | undefined {
  const read = schema.safeParse(body);
  return read.success ? undefined : firstProblem(read.error);
}

function firstProblem({ issues: [issue] }: z.ZodError): string {
  return `${issue?.path.join(".") || "it"}: ${issue?.message ?? "not as it should be"}`;
}

function readJson(text: string | null): unknown {
  try {
    return JSON.parse(text ?? "");
  } catch {
    return undefined;
  }
}
