// Brings an image as it is, or makes one from a directory: a vendor's own plugin, or a program that
// needs nothing below it. The image is not run here; other components use it by its digest.

import { access, constants, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import {
  type BuildResult,
  definePlugin,
  Failure,
  type OperationContext,
  PLUGIN_ANNOTATION,
  type PluginDescriptor,
  parsePluginDescriptor,
  parseProgramPlugin,
  z,
} from "@exclave/plugin-sdk";
import { chooseManifest } from "./choose-manifest.ts";

const Config = z.strictObject({
  reference: z.string().optional().describe("Which image, where a layout holds several"),
  entrypoint: z.array(z.string()).min(1).optional().describe("Makes an image of the directory"),
  cmd: z.array(z.string()).optional(),
  env: z.array(z.string()).optional().describe("NAME=value, in the image's configuration"),
  workingDir: z.string().optional(),
  prefix: z.string().startsWith("/").default("/").describe("Where the directory lies in the image"),
});
type Config = z.infer<typeof Config>;
type Context = OperationContext<Config>;

/** Where the runner finds the plugin of its image: beside itself. */
const PLUGIN_PREFIX = "/exclave";
/** The material a vendor's plugin is put on top of: the runner's image. */
const BASE_MATERIAL = "base";

export const plugin = definePlugin({
  type: "image",
  description: "Brings an existing OCI image by digest",
  config: Config,
  outputs: {
    image: { type: "string", description: "The image in the install's registry", sensitive: false },
    digest: { type: "string", sensitive: false },
  },
  buildKeys: ["reference", "entrypoint", "cmd", "env", "workingDir", "prefix"],
  source: "required",
  artifactFor: { apply: "present", status: "present", destroy: "ignored" },

  async build({ files, config }) {
    if (await exists(join(files, "oci-layout"))) return existingImage(files, config);
    if (await exists(join(files, "plugin.json"))) return pluginImage(files);
    if (config.entrypoint) return directoryImage(files, config);
    const message =
      "the source is neither an OCI image layout nor a plugin (plugin.json), and no entrypoint is set";
    throw new Failure("invalid", message);
  },

  async apply(context) {
    const { repository, digest } = presentArtifact(context);
    const host = context.registryUrl ? new URL(context.registryUrl).host : "";
    context.output("image", `${host}/${repository}@${digest}`);
    context.output("digest", digest);
    context.resource("read", "image", `${repository}@${digest}`);
  },

  async status({ artifact }) {
    if (artifact?.present) return { health: "healthy", because: "it lies in the registry" };
    return { health: "missing", because: "it is not in the install's registry" };
  },

  async destroy(context) {
    context.log("an image is content of the registry; there is nothing to remove");
  },
});

async function existingImage(directory: string, { reference }: Config): Promise<BuildResult> {
  const index = await readFile(join(directory, "index.json"), "utf8").catch((cause) => {
    throw new Failure("invalid", "the OCI layout has no index.json", { cause });
  });
  return { kind: "layout", directory, digest: chooseManifest(index, reference) };
}

async function pluginImage(directory: string): Promise<BuildResult> {
  const text = await readFile(join(directory, "plugin.json"), "utf8");
  const descriptor = (await exists(join(directory, "plugin.mjs")))
    ? parsePluginDescriptor(text)
    : await programDescriptor(directory, text);
  return {
    kind: "image",
    directory,
    prefix: PLUGIN_PREFIX,
    base: BASE_MATERIAL,
    annotations: { [PLUGIN_ANNOTATION]: JSON.stringify(descriptor) },
  };
}

async function programDescriptor(directory: string, text: string): Promise<PluginDescriptor> {
  const { run, ...descriptor } = parseProgramPlugin(text);
  const [program = ""] = run;
  if (program.includes("/") && !program.startsWith("/")) {
    await access(join(directory, program), constants.X_OK).catch((cause) => {
      const message = `plugin.json runs ${program}, which is not an executable file of the plugin`;
      throw new Failure("invalid", message, { cause });
    });
  }
  return descriptor;
}

function directoryImage(directory: string, config: Config): BuildResult {
  const { entrypoint, cmd, env, workingDir, prefix } = config;
  return {
    kind: "image",
    directory,
    prefix,
    config: {
      ...(entrypoint && { entrypoint }),
      ...(cmd && { cmd }),
      ...(env && { env }),
      ...(workingDir !== undefined && { workingDir }),
    },
  };
}

function presentArtifact({ artifact }: Context): NonNullable<Context["artifact"]> {
  if (!artifact) throw new Failure("invalid", "the component has no image");
  if (artifact.present) return artifact;
  const message = `${artifact.repository}@${artifact.digest} is not in the install's registry`;
  throw new Failure("not_synced", message);
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
