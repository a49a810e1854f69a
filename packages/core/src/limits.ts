// How much of what others write is read, and how much work it may cause: sizes of documents, and steps
// of everything whose cost its author could otherwise choose. Each number says why it is that large;
// docs/reference/limits.md lists them.

/** An `exclave.yaml`. The largest written by hand have a few hundred lines; generated ones fit too. */
export const APP_BYTES_MAX = 512 * 1024;

/** Kubernetes manifests of one component, all documents together. Helm itself can keep a release of about 1 MiB, compressed. */
export const YAML_DOCUMENTS_BYTES_MAX = 16 * 1024 * 1024;

/** Keys, values and items of an `exclave.yaml`, aliases counted as what they stand for. */
export const APP_NODES_MAX = 50_000;

/** Aliases in it: each is looked up among all anchors. */
export const APP_ALIASES_MAX = 1_000;

/**
 * Values within values. Parsers and checks recurse, and a stack that runs out inside the regular expression
 * compiler ends the whole process: nothing deeper is given to them.
 */
export const JSON_DEPTH_MAX = 64;

/** Problems reported at once: more help nobody, and each costs a search for its place. */
export const PROBLEMS_MAX = 200;

/** Steps of checking one configuration against its schema. About a second of work. */
export const SCHEMA_STEPS_MAX = 1_000_000;

/** One `${{ … }}`. */
export const EXPRESSION_LENGTH_MAX = 8 * 1024;
export const EXPRESSION_NODES_MAX = 2_000;
export const EXPRESSION_DEPTH_MAX = 64;
export const EXPRESSION_LIST_MAX = 1_000;

/** Steps of evaluating all expressions of one configuration. About a second of work in the agent. */
export const EXPRESSION_STEPS_MAX = 2_000_000;

/** A regular expression: its text, and its states after counted repeats are written out. */
export const PATTERN_LENGTH_MAX = 1_000;
export const PATTERN_STATES_MAX = 1_000;
export const PATTERN_DEPTH_MAX = 32;

/** Names longer than this, or more of them, are not searched for what was probably meant. */
export const SUGGEST_LENGTH_MAX = 64;
export const SUGGEST_NAMES_MAX = 500;

/**
 * The bytes of a job's manifest. Large enough for a sync of `COMPONENTS_MAX` components; the frame that carries it
 * follows from it, so that whatever is issued can be delivered.
 */
export const MANIFEST_BYTES_MAX = 192 * 1024;

/** Parts of a manifest, each checked where a person gives it: together they leave a third for the rest. */
export const COMPONENT_CONFIG_BYTES_MAX = 64 * 1024;
export const INPUTS_BYTES_MAX = 64 * 1024;

/** Components of an app: all of them are named in one sync and one assemble. */
export const COMPONENTS_MAX = 400;
export const SECRETS_MAX = 200;
