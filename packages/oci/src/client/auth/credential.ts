// What somebody keeps to prove to a registry who they are.

export type Credential =
  | { readonly kind: "basic"; readonly username: string; readonly password: string }
  /** A long-lived token that is only good for getting others (OAuth2, `identitytoken`). */
  | { readonly kind: "refresh"; readonly token: string }
  /** A token the registry itself takes. */
  | { readonly kind: "bearer"; readonly token: string };

/** Finds what is kept for a registry, such as `registry.example.com:5000`, or a repository in it. */
export type Credentials = (host: string, repository?: string) => Promise<Credential | undefined>;

export function basicHeader(credential: { username: string; password: string }): string {
  const text = `${credential.username}:${credential.password}`;
  return `Basic ${Buffer.from(text).toString("base64")}`;
}
