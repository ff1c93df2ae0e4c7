/**
 * A slash at the end of an API path is not part of it: `POST /v1/emails/` is `POST /v1/emails`, on both mounts and with
 * every method. The path is replaced before routing, so that access rules, logs and metrics see one path; clients are
 * not redirected. Other paths (static files, links for recipients) stay as they are, as do encoded slashes.
 */
import { isOfRootMount } from '../../compat/resend/wire/failures.ts';

/** @param url path and query of a request */
export function withoutTrailingSlash(url: string): string {
  const query = url.indexOf('?');
  const pathEnd = query < 0 ? url.length : query;
  if (url[pathEnd - 1] !== '/' || !isOfApi(url)) return url;
  let end = pathEnd;
  while (url[end - 1] === '/') end -= 1;
  return `${url.slice(0, end)}${url.slice(pathEnd)}`;
}

function isOfApi(url: string): boolean {
  return /^\/+v1\//.test(url) || isOfRootMount(url);
}
