// Which server is meant and with which token. The decision is a plain function over everything that
// could name one, nearest first: options, environment, the current context, the server running here.

import { readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { learnAuthorities, readIfThere, writeDurablySync } from "@exclave/machine";
import { z } from "zod";
import { CliProblem } from "../program/problem.ts";
import type { Home } from "./home.ts";
import type { Context, Settings } from "./settings.ts";

export interface ConnectionWish {
  readonly server?: string | undefined;
  readonly context?: string | undefined;
  readonly tokenFile?: string | undefined;
  readonly caFile?: string | undefined;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

export interface Target {
  readonly url: string;
  /** What named it, for `context show` and error sentences. */
  readonly from: string;
  readonly token:
    | { readonly kind: "file"; readonly path: string }
    | { readonly kind: "value"; readonly value: string; readonly from: string }
    | { readonly kind: "none" };
  /** Certificates that vouch for it, instead of the machine's roots. */
  readonly caFile?: string | undefined;
}

/** What a running `exclave up` leaves in its home. */
export const UpRecord = z.object({
  url: z.url(),
  caFile: z.string().optional(),
  pid: z.int(),
  startTime: z.string(),
  bootId: z.string().optional(),
  /** What it started, so that the next one can end what a killed one left behind. */
  children: z
    .array(
      z.object({
        name: z.string(),
        pid: z.int(),
        startTime: z.string(),
        bootId: z.string().optional(),
      }),
    )
    .default([]),
});
export type UpRecord = z.infer<typeof UpRecord>;

export async function readUpRecord(home: Home): Promise<UpRecord | undefined> {
  const text = await readIfThere(home.upFile);
  if (text === undefined) return undefined;
  try {
    return UpRecord.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

export function decideTarget(
  wish: ConnectionWish,
  { settings, up, home }: { settings: Settings; up: UpRecord | undefined; home: Home },
): Target {
  const address = wish.server ?? (wish.context ? undefined : wish.environment.EXCLAVE_SERVER);
  if (address !== undefined) {
    const from = wish.server ? "--server" : "EXCLAVE_SERVER";
    const url = checkedUrl(address, from);
    const named = Object.values(settings.contexts).find(({ server }) => sameServer(server, url));
    return { url, from, ...accessFor(wish, named ?? localContext(up, home, url)) };
  }
  const contextName = wish.context ?? settings.current;
  if (contextName !== undefined) {
    const context = settings.contexts[contextName];
    if (!context) throw unknownContext(contextName, settings);
    return { url: context.server, from: `context ${contextName}`, ...accessFor(wish, context) };
  }
  if (up) {
    const context = localContext(up, home, up.url);
    return { url: up.url, from: home.upFile, ...accessFor(wish, context) };
  }
  throw new CliProblem("unreachable", "no server is known on this machine", {
    hint: "start one with `exclave up`, or add one with `exclave context add NAME --server URL --token-file FILE`",
  });
}

export async function readToken({ token }: Target): Promise<string | undefined> {
  if (token.kind === "none") return undefined;
  if (token.kind === "value") return token.value;
  try {
    return (await readFile(token.path, "utf8")).trim();
  } catch (reason) {
    throw new CliProblem("unreachable", `the token file ${token.path} cannot be read`, {
      hint: "name another with --token-file, or correct the context",
      cause: reason,
    });
  }
}

/** The certificates that vouch for the server, in PEM; undefined where the machine's roots count. */
export async function readCa({ caFile }: Target): Promise<string | undefined> {
  if (caFile === undefined) return undefined;
  try {
    return await readFile(caFile, "utf8");
  } catch (reason) {
    throw new CliProblem("unreachable", `the certificate file ${caFile} cannot be read`, {
      hint: "name another with --ca-file, or add the context again with --ca-fingerprint",
      cause: reason,
    });
  }
}

export function unknownContext(name: string, settings: Settings): CliProblem {
  const known = Object.keys(settings.contexts);
  return new CliProblem("notFound", `there is no context ${name}`, {
    hint: known.length > 0 ? `there is: ${known.join(", ")}` : "add one with `exclave context add`",
  });
}

function accessFor(
  wish: ConnectionWish,
  context: Context | undefined,
): Pick<Target, "token" | "caFile"> {
  const caFile = wish.caFile ?? wish.environment.EXCLAVE_CA_FILE ?? context?.caFile;
  return { token: tokenFor(wish, context), ...(caFile ? { caFile } : {}) };
}

function tokenFor(wish: ConnectionWish, context: Context | undefined): Target["token"] {
  if (wish.tokenFile) return { kind: "file", path: wish.tokenFile };
  const value = wish.environment.EXCLAVE_TOKEN;
  if (value) return { kind: "value", value: value.trim(), from: "EXCLAVE_TOKEN" };
  if (context?.tokenFile) return { kind: "file", path: context.tokenFile };
  if (context?.token) return { kind: "value", value: context.token, from: "the settings file" };
  return { kind: "none" };
}

function localContext(up: UpRecord | undefined, home: Home, url: string): Context | undefined {
  if (!up || !sameServer(up.url, url)) return undefined;
  const { url: server, caFile } = up;
  return { server, tokenFile: home.adminTokenFile, ...(caFile ? { caFile } : {}) };
}

function sameServer(a: string, b: string): boolean {
  return new URL(a).origin === new URL(b).origin;
}

export function checkedUrl(text: string, from: string): string {
  const url = URL.parse(text);
  if (url?.protocol === "http:" || url?.protocol === "https:") return text.replace(/\/+$/, "");
  throw new CliProblem("usage", `${from} is not the address of a server: ${text}`, {
    hint: "write it whole, for example http://127.0.0.1:8420",
  });
}

/**
 * Keeps the authority that takes the place of the pinned one, for the time after the old one is retired. Only in files that this
 * program wrote itself; a file that somebody named is theirs.
 */
export function keepLearned(
  home: Pick<Home, "caDirectory">,
  { caFile }: Pick<Target, "caFile">,
  {
    pinned,
    chain,
  }: {
    readonly pinned: string | undefined;
    readonly chain: Parameters<typeof learnAuthorities>[1];
  },
): void {
  if (caFile === undefined || pinned === undefined || dirname(caFile) !== home.caDirectory) return;
  const learned = learnAuthorities(pinned, chain);
  if (learned === undefined) return;
  try {
    writeDurablySync(caFile, learned);
  } catch {
    // The old one still counts; the next command tries again.
  }
}
