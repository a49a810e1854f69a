// What belongs to an install on an engine, by name. Everything begins with the owner, and carries it as a label.

export interface Names {
  /** In the name and the labels of everything of this install. */
  readonly owner: string;
  readonly network: string;
  readonly volumes: {
    /** The agent's memory. */
    readonly home: string;
    /** What the registry holds. */
    readonly registry: string;
    /** What jobs see in `/run/exclave`: the sockets of the registry and of the gate for jobs. */
    readonly sockets: string;
    /** The socket of the gate for the agent, which jobs never see. */
    readonly gate: string;
    /** The runner on its way into the registry. */
    readonly seed: string;
  };
  readonly containers: Readonly<Record<SystemPart, string>>;
}

export const SYSTEM_PARTS = ["gate", "registry", "agent"] as const;
export type SystemPart = (typeof SYSTEM_PARTS)[number];

/** Users that are nobody on the machine, each for one part. The gate owns the engine's socket, as root does. */
export const USERS = { gate: 0, agent: 65_530, registry: 65_533 } as const satisfies Record<
  SystemPart,
  number
>;

export const PLACES = {
  home: "/home/exclave",
  registry: "/registry",
  sockets: "/run/exclave",
  gate: "/run/gate",
  engine: "/run/engine",
  seed: "/seed",
} as const;

export const SOCKETS = {
  registry: "registry.sock",
  /** Of the gate: for jobs in the sockets' volume, for the agent in a volume of its own. */
  engine: "engine.sock",
} as const;

export function namesOf(installId: string): Names {
  const owner = `exclave-${installId}`;
  const named = (name: string) => `${owner}-${name}`;
  return {
    owner,
    network: owner,
    volumes: {
      home: named("home"),
      registry: named("registry"),
      sockets: named("sockets"),
      gate: named("gate"),
      seed: named("seed"),
    },
    containers: { gate: named("gate"), registry: named("registry"), agent: named("agent") },
  };
}
