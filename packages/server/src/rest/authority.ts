import { getAuthority, retireAuthority, rotateAuthority } from "@exclave/api";
import {
  retireAuthority as retire,
  rotateAuthority as rotate,
  viewAuthority,
} from "../tls/rotate-authority.ts";
import { type Handler, handler } from "./handler.ts";

export const AUTHORITY_HANDLERS: readonly Handler[] = [
  handler(getAuthority, ({ context }) => viewAuthority(context)),
  handler(rotateAuthority, ({ caller, context }) => rotate(context, caller.name)),
  handler(retireAuthority, ({ body: { force }, caller, context }) =>
    retire(context, { by: caller.name, force }),
  ),
];
