// A registry that is reached by a unix socket instead of its address: it listens on no port, and whoever has the
// socket needs no network. Only the registry's own origin goes that way; where it sends us, it does not.

export interface SocketRoute {
  readonly origin: string;
  readonly socket: string;
}

/** The socket that leads there, where one does. */
export function socketTo(url: URL, route: SocketRoute | undefined): string | undefined {
  return route?.origin === url.origin ? route.socket : undefined;
}
