import assert from "node:assert/strict";
import { test } from "node:test";
import { addressGroup, createAddressCount } from "./remote-address.ts";

test("counts an IPv4 address alone and an IPv6 network as one", () => {
  assert.equal(addressGroup("::ffff:192.0.2.7"), "192.0.2.7");
  assert.equal(addressGroup("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
  assert.equal(addressGroup("2001:db8:1:2::6"), addressGroup("2001:db8:1:2:ffff::1"));
  assert.notEqual(addressGroup("2001:db8:1:3::6"), addressGroup("2001:db8:1:2::6"));
  assert.equal(addressGroup("fe80::1%eth0"), "fe80:0:0:0::/64");
});

test("one address has so many connections and no more; others and loopback are not touched by it", () => {
  const connections = createAddressCount(2);
  const take = (address: string) => connections.take(address);

  assert.deepEqual(["192.0.2.1", "192.0.2.1", "192.0.2.1"].map(take), [true, true, false]);
  assert.ok(take("192.0.2.2"));
  assert.ok(Array.from({ length: 10 }, () => take("127.0.0.1")).every(Boolean));
  connections.give("192.0.2.1");
  assert.ok(take("192.0.2.1"));
});
