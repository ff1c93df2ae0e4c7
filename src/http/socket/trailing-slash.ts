/**
 * Removes a slash at the end of an API path, on both mounts and for every method: `POST /v1/emails/` is
 * `POST /v1/emails`. The path is replaced before routing, so access rules, logs and metrics see one path; clients are
 * not redirected. Other paths (static files, links for recipients) and encoded slashes stay.
 */
import type { RootFormat } from '../root-format.ts';

/**
 * Returns the URL without the slash.
 * @param url path and query of a request
 */
export function withoutTrailingSlash(url: string, rootFormat: RootFormat | null): string {
  const queryStart = url.indexOf('?');
  const pathEnd = queryStart < 0 ? url.length : queryStart;
  if (url[pathEnd - 1] !== '/' || !isOfApi(url, rootFormat)) return url;
  let cutEnd = pathEnd;
  while (url[cutEnd - 1] === '/') cutEnd -= 1;
  return `${url.slice(0, cutEnd)}${url.slice(pathEnd)}`;
}

function isOfApi(url: string, rootFormat: RootFormat | null): boolean {
  return /^\/+v1\//.test(url) || rootFormat?.hasPath(url) === true;
}
