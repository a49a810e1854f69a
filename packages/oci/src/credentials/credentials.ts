// What people have already told other tools about their registries: docker's configuration files
// (podman and skopeo write the same) and the helper programs these files name.

import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { Failure } from "@exclave/core";
import { z } from "zod";
import type { Credential, Credentials } from "../client/auth/credential.ts";

export interface DockerCredentialsOptions {
  /** Read in this order; the first that knows a registry counts. Files that are not there are fine. */
  readonly files: readonly string[];
  /** Runs `docker-credential-<name> get` with the host on its stdin and returns what it prints. */
  readonly runHelper?: (name: string, host: string) => Promise<string>;
}

const Auth = z.object({
  auth: z.string().optional(),
  username: z.string().optional(),
  password: z.string().optional(),
  identitytoken: z.string().optional(),
  registrytoken: z.string().optional(),
});

const DockerConfig = z.object({
  auths: z.record(z.string(), Auth).default({}),
  credHelpers: z.record(z.string(), z.string()).default({}),
  credsStore: z.string().optional(),
});
type DockerConfig = z.infer<typeof DockerConfig>;

const HelperAnswer = z.object({ Username: z.string(), Secret: z.string() });

/** What docker calls its own registry wherever it keeps something about it. */
const DOCKER_HUB_KEY = "https://index.docker.io/v1/";

/** What helpers print instead of a credential when they have none. */
const NOT_FOUND = /credentials not found/i;

export function createDockerCredentials(options: DockerCredentialsOptions): Credentials {
  const { files, runHelper = runHelperProgram } = options;
  return async (host, repository) => {
    for (const file of files) {
      const config = await readConfig(file);
      const found = config && (await lookUp(config, host, repository));
      if (found) return found;
    }
    return undefined;
  };

  async function lookUp(
    config: DockerConfig,
    host: string,
    repository: string | undefined,
  ): Promise<Credential | undefined> {
    const helper = entryFor(config.credHelpers, host, repository) ?? config.credsStore;
    const kept = helper === undefined ? undefined : await askHelper(helper, host);
    return kept ?? readAuth(entryFor(config.auths, host, repository), host);
  }

  async function askHelper(helper: string, host: string): Promise<Credential | undefined> {
    if (!/^[a-zA-Z0-9._-]+$/.test(helper)) {
      throw new Failure("invalid", `${JSON.stringify(helper)} cannot be the name of a helper`);
    }
    const text = await runHelper(helper, isDockerHub(host) ? DOCKER_HUB_KEY : host);
    if (NOT_FOUND.test(text)) return undefined;
    const answer = HelperAnswer.safeParse(parseJson(text));
    if (!answer.success) {
      throw new Failure("unauthenticated", `docker-credential-${helper} gave no credential`);
    }
    const { Username: username, Secret: secret } = answer.data;
    if (username === "<token>") return { kind: "refresh", token: secret };
    return { kind: "basic", username, password: secret };
  }
}

async function readConfig(file: string): Promise<DockerConfig | undefined> {
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (reason) {
    if ((reason as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new Failure("invalid", `cannot read ${file}`, { cause: reason });
  }
  const config = DockerConfig.safeParse(parseJson(text));
  if (config.success) return config.data;
  throw new Failure("invalid", `${file} is not a docker configuration file`);
}

/** What is kept for the repository's own namespace goes before what is kept for all of the host. */
function entryFor<T>(
  entries: Readonly<Record<string, T>>,
  host: string,
  repository = "",
): T | undefined {
  const names = isDockerHub(host) ? ["docker.io", "index.docker.io", host] : [host];
  const [found] = Object.entries(entries)
    .map(([key, entry]) => ({ ...placeOf(key), entry }))
    .filter((place) => names.includes(place.host))
    .filter(({ namespace }) => namespace === "" || `${repository}/`.startsWith(`${namespace}/`))
    .sort((a, b) => b.namespace.length - a.namespace.length);
  return found?.entry;
}

/** Files name a registry by its host, a part of it by a path below that, or all by an address of old. */
function placeOf(key: string): { readonly host: string; readonly namespace: string } {
  const [, scheme, host = "", path = ""] = /^(https?:\/\/)?([^/]*)\/?(.*?)\/?$/.exec(key) ?? [];
  const isAddress = scheme !== undefined || path === "v1" || path === "v2";
  return { host, namespace: isAddress ? "" : path };
}

function isDockerHub(host: string): boolean {
  return host === "registry-1.docker.io" || host === "docker.io" || host === "index.docker.io";
}

function readAuth(auth: z.infer<typeof Auth> | undefined, host: string): Credential | undefined {
  if (auth?.registrytoken) return { kind: "bearer", token: auth.registrytoken };
  if (auth?.identitytoken) return { kind: "refresh", token: auth.identitytoken };
  if (auth?.username !== undefined && auth.password !== undefined) {
    return { kind: "basic", username: auth.username, password: auth.password };
  }
  if (!auth?.auth) return undefined;
  return parseBasic(auth.auth, `what is kept for ${host}`);
}

/** `user:password` in base64, as it stands in files and in ECR's answers. */
export function parseBasic(text: string, what: string): Credential & { kind: "basic" } {
  const [, username, password] =
    /^([^:]*):(.*)$/s.exec(Buffer.from(text, "base64").toString("utf8")) ?? [];
  if (username === undefined || password === undefined) {
    throw new Failure("invalid", `${what} is not a name and a password`);
  }
  return { kind: "basic", username, password: password.replace(/\0+$/, "") };
}

/** The first of them that knows the registry. */
export function firstCredentials(...sources: readonly Credentials[]): Credentials {
  return async (host, repository) => {
    for (const source of sources) {
      const found = await source(host, repository);
      if (found) return found;
    }
    return undefined;
  };
}

async function runHelperProgram(name: string, host: string): Promise<string> {
  const program = `docker-credential-${name}`;
  return new Promise((resolve, reject) => {
    const child = execFile(program, ["get"], { timeout: 30_000 }, (reason, stdout) => {
      // A helper without a credential fails and says so on stdout.
      if (reason === null || NOT_FOUND.test(stdout)) return resolve(stdout);
      reject(new Failure("unauthenticated", `${program} failed`, { cause: reason }));
    });
    // One that does not read what it is told fails for its own reasons.
    child.stdin?.on("error", () => undefined);
    child.stdin?.end(host);
  });
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
