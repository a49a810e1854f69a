// The names by which other tools know the artifacts we write.

export const HELM_TYPES = {
  config: "application/vnd.cncf.helm.config.v1+json",
  chart: "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
} as const;

export const FLUX_TYPES = {
  config: "application/vnd.cncf.flux.config.v1+json",
  content: "application/vnd.cncf.flux.content.v1.tar+gzip",
} as const;

export const TOFU_TYPES = {
  module: "application/vnd.opentofu.modulepkg",
  provider: "application/vnd.opentofu.provider",
  providerTarget: "application/vnd.opentofu.provider-target",
  zip: "archive/zip",
  /** A provider that travels with a module. OpenTofu passes over layers of types it does not know. */
  bundledProvider: "application/vnd.exclave.tfprovider.v1+zip",
} as const;

export const RELEASE_TYPE = "application/vnd.exclave.release.v1+json";

export const SIGNATURE_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json";

export const TITLE_ANNOTATION = "org.opencontainers.image.title";
