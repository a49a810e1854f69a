// The few shapes most calls have: a plain GET, a plain POST, a page of a list.

import { z } from "zod";
import { type Access, call } from "../call.ts";

export const none = z.object({});
export const nothing = z.undefined();
export const list = <Item extends z.ZodType>(item: Item) =>
  z.object({ items: z.array(item), next: z.string().nullable() });
/** Items of one page: what a page costs is bounded, however many there are. */
export const PAGE_ITEMS_MAX = 200;

export const page = z.object({
  limit: z.coerce.number().int().min(1).max(PAGE_ITEMS_MAX).default(100),
  cursor: z.string().optional(),
});

interface Shape<P extends z.ZodObject, Q extends z.ZodObject, R extends z.ZodType> {
  readonly name: string;
  readonly path: string;
  readonly access: Access;
  readonly summary: string;
  readonly params: P;
  readonly query: Q;
  readonly response: R;
}

export function get<P extends z.ZodObject, Q extends z.ZodObject, R extends z.ZodType>(
  shape: Shape<P, Q, R>,
) {
  return call({
    ...shape,
    method: "GET",
    body: nothing,
    produces: "json",
    consumes: "nothing",
    status: 200,
  });
}

export function post<P extends z.ZodObject, B extends z.ZodType, R extends z.ZodType>(
  shape: Omit<Shape<P, typeof none, R>, "query"> & {
    readonly body: B;
    readonly bodyBytesMax?: number;
    readonly status?: number;
  },
) {
  return call({
    status: 200,
    ...shape,
    method: "POST",
    query: none,
    produces: "json",
    consumes: "json",
  });
}
