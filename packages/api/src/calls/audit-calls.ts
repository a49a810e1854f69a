// The record.

import { Envelope } from "@exclave/core";
import { z } from "zod";
import { AuditView, Time } from "../resources.ts";
import { get, list, none, PAGE_ITEMS_MAX, page } from "./call-shapes.ts";

export const listAudit = get({
  name: "listAudit",
  path: "/v1/audit",
  access: "viewer",
  summary: "A page of the record: oldest first from `after`, or the newest ones before `before`",
  params: none,
  query: z.object({
    limit: z.coerce.number().int().min(1).max(PAGE_ITEMS_MAX).default(PAGE_ITEMS_MAX),
    after: z.coerce.number().int().min(0).optional(),
    /** With `newest` alone. */
    before: z.coerce.number().int().min(1).optional(),
    subject: z.string().optional(),
    newest: z.stringbool().default(false),
  }),
  response: z.object({
    items: z.array(AuditView),
    /** What to say as `after`, or with `newest` as `before`, for the page behind this one. */
    next: z.string().nullable(),
    size: z.int(),
    head: z.string(),
  }),
});

export const listCheckpoints = get({
  name: "listCheckpoints",
  path: "/v1/audit/checkpoints",
  access: "viewer",
  summary:
    "Checkpoints that agents presented; those who are connected are asked, and waited for two seconds",
  params: none,
  query: page.extend({
    /** One install's agent alone, by name or id. */
    install: z.string().optional(),
  }),
  response: list(
    z.object({
      agent: z.string(),
      /** The name of its install. */
      install: z.string().nullable(),
      status: z.enum(["online", "offline"]),
      /** When it last presented them. */
      at: Time.nullable(),
      checkpoints: z.array(Envelope),
    }),
  ),
});

export const getCheckpoint = get({
  name: "getCheckpoint",
  path: "/v1/audit/checkpoint",
  access: "viewer",
  summary: "A signed checkpoint of the record, and every version of the trust document",
  params: none,
  query: none,
  response: z.object({ checkpoint: Envelope, trust: z.array(Envelope) }),
});
