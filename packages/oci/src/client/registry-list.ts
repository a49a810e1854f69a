// A list of a registry, which comes in pages.

import { Failure } from "@exclave/core";
import type { z } from "zod";
import type { RegistryHttp } from "./registry-http.ts";

export interface RegistryList<Page, Entry> {
  readonly path: string;
  readonly schema: z.ZodType<Page>;
  readonly entriesOf: (page: Page) => readonly Entry[];
  /** Statuses that say that there is no such list. */
  readonly absent: readonly number[];
  readonly signal: AbortSignal | undefined;
}

export interface ListRead<Entry> {
  /** Of the pages before its end. */
  readonly entries: Entry[];
  readonly end: "last page" | "absent" | "unreadable";
}

const PAGES_MAX = 1_000;
const ENTRIES_MAX = 100_000;
const PAGE_BYTES_MAX = 4 * 1024 * 1024;

export async function readRegistryList<Page, Entry>(
  http: RegistryHttp,
  list: RegistryList<Page, Entry>,
): Promise<ListRead<Entry>> {
  const { schema, entriesOf, absent, signal } = list;
  const entries: Entry[] = [];
  let path: string | URL | undefined = list.path;
  for (let pages = 1; path !== undefined; pages++) {
    checkLength(pages, entries.length);
    const accept = [200, ...absent];
    const response = await http.send({ method: "GET", path, accept, signal });
    const bytes = await http.readAll(response, PAGE_BYTES_MAX);
    if (response.statusCode !== 200) return { entries, end: "absent" };
    const page = schema.safeParse(parseJson(bytes));
    if (!page.success) return { entries, end: "unreadable" };
    entries.push(...entriesOf(page.data));
    const next = /<([^>]+)>;\s*rel="?next"?/.exec(String(response.headers["link"] ?? ""));
    // Like a redirect: it leads only where this registry may send us.
    path = next ? http.resolve(next[1]) : undefined;
  }
  return { entries, end: "last page" };
}

/** A list whose pages lead to ever new ones, or in circles, has an end here. */
function checkLength(pages: number, entries: number): void {
  if (pages <= PAGES_MAX && entries <= ENTRIES_MAX) return;
  throw new Failure("too_large", `a list of the registry has no end after ${entries} entries`);
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(bytes).toString("utf8")) as unknown;
  } catch {
    return undefined;
  }
}
