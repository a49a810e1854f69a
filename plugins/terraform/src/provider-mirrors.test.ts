import assert from "node:assert/strict";
import { test } from "node:test";
import { configuredMirrors, insideSource } from "./provider-mirrors.ts";

test("the mirrors that the tool's own configuration names are found", () => {
  const text = `
    plugin_cache_dir = "/var/cache"
    # filesystem_mirror { path = "/commented" }
    provider_installation {
      filesystem_mirror {
        path    = "/opt/providers"
        include = ["registry.terraform.io/*/*"]
      }
      network_mirror { url = "https://example.invalid/" }
      filesystem_mirror {
        include = ["*/*"]
        path = "/srv/more"
      }
      direct {}
    }`;

  assert.deepEqual(configuredMirrors(text), ["/opt/providers", "/srv/more"]);
});

for (const path of ["/opt/providers", "..", "a/../../b", "."]) {
  test(`providersFrom ${path} is not a directory in the source`, () => {
    assert.throws(() => insideSource(path), { code: "invalid", message: /providersFrom/ });
  });
}
