// What people have already told other tools about their registries: docker's configuration files
// (podman and skopeo write the same) and the helper programs these files name.

import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { Failure } from "@exclave/core";
import { z } from "zod";
import type { Credential, Credentials } from "./registry-auth.ts";

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

/** What helpers print instead of a credential when they have none. */
const NOT_FOUND = /credentials not found/i;

export function createDockerCredentials(options: DockerCredentialsOptions): Credentials {
  const { files, runHelper = runHelperProgram } = options;
  return async (host) => {
    for (const file of files) {
      const config = await readConfig(file);
      const found = config && (await lookUp(config, host));
      if (found) return found;
    }
    return undefined;
  };

  async function lookUp(config: DockerConfig, host: string): Promise<Credential | undefined> {
    const helper = entryFor(config.credHelpers, host) ?? config.credsStore;
    const kept = helper === undefined ? undefined : await askHelper(helper, host);
    return kept ?? readAuth(entryFor(config.auths, host), host);
  }

  async function askHelper(helper: string, host: string): Promise<Credential | undefined> {
    if (!/^[a-zA-Z0-9._-]+$/.test(helper)) {
      throw new Failure("invalid", `${JSON.stringify(helper)} cannot be the name of a helper`);
    }
    const text = await runHelper(helper, host);
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

/** Files name a registry by its host, or by an address of old. */
function entryFor<T>(entries: Readonly<Record<string, T>>, host: string): T | undefined {
  const names = isDockerHub(host) ? ["docker.io", "index.docker.io", host] : [host];
  const found = Object.entries(entries).find(([key]) => {
    const name = key.replace(/^https?:\/\//, "").replace(/\/.*$/, "");
    return names.includes(name);
  });
  return found?.[1];
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
  return async (host) => {
    for (const source of sources) {
      const found = await source(host);
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
