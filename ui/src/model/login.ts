/** Returns the token in the fragment of a login link. Browsers do not send the fragment to the server. */
export function takeToken(fragment: string): string | undefined {
  return /^#token=([a-z0-9]+)$/.exec(fragment)?.[1];
}

/** The page after the login. Only paths of this server are accepted, so that a link cannot lead elsewhere. */
export function loginTarget(path: string | undefined): string {
  const isLocal = path !== undefined && /^\/(?![/\\])/.test(path) && !path.startsWith("/login");
  return isLocal ? path : "/";
}
