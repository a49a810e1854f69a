// What a part of the agent notices beside its work and the record should know of. The part waits until
// it is journaled: whatever it then does about it, a crash does not leave it unsaid.

export interface Notice {
  readonly code: string;
  readonly because: string;
}

export interface Notices {
  /** Returns once it is on record. Before anybody listens it waits. */
  say(notice: Notice): Promise<void>;
  listen(take: (notice: Notice) => Promise<void>): void;
}

export function createNotices(): Notices {
  const { promise: listening, resolve: listen } =
    Promise.withResolvers<(notice: Notice) => Promise<void>>();
  return {
    say: async (notice) => (await listening)(notice),
    listen,
  };
}
