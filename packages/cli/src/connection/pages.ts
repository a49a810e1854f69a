// A list comes in pages; people and scripts want all of it.

import { type Call, type Client, PAGE_ITEMS_MAX } from "@exclave/api";
import type { z } from "zod";

type ListCall<Item> = Call<
  z.ZodObject,
  z.ZodObject,
  z.ZodType,
  z.ZodType<{ items: Item[]; next: string | null }>
>;

export async function listAll<Item>(
  client: Client,
  call: ListCall<Item>,
  query: Readonly<Record<string, unknown>> = {},
  itemsMax = Number.POSITIVE_INFINITY,
): Promise<Item[]> {
  const items: Item[] = [];
  let cursor: string | undefined;
  do {
    const limit = Math.min(PAGE_ITEMS_MAX, itemsMax - items.length);
    const page = await client.call(call, {
      query: { limit, ...query, ...(cursor === undefined ? {} : { cursor }) },
    });
    items.push(...page.items);
    cursor = page.next ?? undefined;
  } while (cursor !== undefined && items.length < itemsMax);
  return items.slice(0, itemsMax);
}
