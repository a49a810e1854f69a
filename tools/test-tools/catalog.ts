// Real programs that some end-to-end tests and figures are made with. None is needed by `npm test`. Each is
// looked for on PATH and in the cache, then fetched through the machine's own package managers.

import type { GoTool } from "./go-tool.ts";

export interface TestTool {
  readonly name: string;
  /** What is not tried without it. */
  readonly tries: string;
  readonly go?: GoTool;
  readonly debian?: string;
}

export const TEST_TOOLS: readonly TestTool[] = [
  {
    name: "skopeo",
    tries: "pushing to and pulling from our registry with skopeo",
    debian: "skopeo",
  },
  {
    name: "crane",
    tries: "reading what we pack with crane",
    go: goTool("crane", "github.com/google/go-containerregistry", "v0.21.9", "cmd/crane"),
  },
  {
    name: "oras",
    tries: "reading artifacts and referrers with oras",
    go: goTool("oras", "oras.land/oras", "v1.3.3", "cmd/oras"),
  },
  {
    name: "registry",
    tries: "tokens of our service at a distribution registry, and figures beside it",
    go: goTool("registry", "github.com/distribution/distribution/v3", "v3.1.1", "cmd/registry"),
  },
  {
    name: "versitygw",
    tries: "logs, sources and registry content in a real S3-compatible store",
    go: goTool("versitygw", "github.com/versity/versitygw", "v1.0.14", "cmd/versitygw"),
  },
  {
    name: "helm",
    tries: "pushing and pulling charts with helm",
    go: goTool("helm", "helm.sh/helm/v4", "v4.2.4", "cmd/helm"),
  },
  {
    name: "cosign",
    tries: "verifying our signatures with cosign",
    go: goTool("cosign", "github.com/sigstore/cosign/v3", "v3.1.2", "cmd/cosign"),
  },
  { name: "podman", tries: "jobs as containers, and the whole line on Podman", debian: "podman" },
  { name: "runc", tries: "jobs as containers, and the whole line on Podman", debian: "runc" },
  {
    name: "catatonit",
    tries: "jobs as containers, and the whole line on Podman",
    debian: "catatonit",
  },
  { name: "busybox", tries: "the runtime contract in containers", debian: "busybox-static" },
  {
    name: "tofu",
    tries: "the Terraform line with OpenTofu",
    go: {
      ...goTool("tofu", "github.com/opentofu/opentofu", "v1.12.6", "cmd/tofu"),
      replace: [
        "github.com/hashicorp/hcl/v2=github.com/opentofu/hcl/v2@v2.20.2-0.20251021132045-587d123c2828",
      ],
    },
  },
];

function goTool(name: string, module: string, version: string, folder: string): GoTool {
  return { name, module, version, package: `${module}/${folder}` };
}
