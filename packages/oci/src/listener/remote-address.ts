// Where a connection comes from, as far as limits care.

import { isIPv6 } from "node:net";
import { isLoopback } from "@exclave/core";

/** Whom a limit counts as one: an IPv4 address, or the /64 that one customer of a network is given. */
export function addressGroup(address: string): string {
  const bare = plainAddress(address);
  if (!isIPv6(bare)) return bare;
  const [front = "", back] = bare.split("%")[0]?.split("::") ?? [];
  const head = front === "" ? [] : front.split(":");
  const tail = back === undefined || back === "" ? [] : back.split(":");
  const zeros = back === undefined ? 0 : Math.max(0, 8 - head.length - tail.length);
  const groups = [...head, ...Array.from({ length: zeros }, () => "0"), ...tail];
  return `${groups.slice(0, 4).join(":")}::/64`;
}

/** How many each address has. It remembers an address only while it has any. */
export function createAddressCount(countMax: number): {
  take(address: string): boolean;
  give(address: string): void;
} {
  const counts = new Map<string, number>();
  return {
    take(address) {
      if (isLoopback(address)) return true;
      const group = addressGroup(address);
      const count = counts.get(group) ?? 0;
      if (count >= countMax) return false;
      counts.set(group, count + 1);
      return true;
    },
    give(address) {
      const group = addressGroup(address);
      const left = (counts.get(group) ?? 0) - 1;
      if (left > 0) counts.set(group, left);
      else counts.delete(group);
    },
  };
}

/** IPv4 that reached a listener of both kinds looks like `::ffff:192.0.2.1`. */
function plainAddress(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, "");
}
