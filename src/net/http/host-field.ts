/**
 * Reads the Host field of a request (RFC 9112 §3.2). Refuses two hosts, because a proxy may have decided by the other
 * one.
 */
import type { IncomingMessage } from 'node:http';

type Head = Pick<IncomingMessage, 'rawHeaders' | 'httpVersion'>;

const HOST = /^(?:\[[\da-f:.]+\]|[\w.~%!$&'()*+;=-]*)(?::\d{0,5})?$/i;
const ABSOLUTE = /^https?:\/\/([^/?#]*)/i;

/** @returns a sentence; null when the request names one host, or none in HTTP/1.0 */
export function hostProblem({ rawHeaders, httpVersion }: Head, target: string): string | null {
  const hosts = hostsOf(rawHeaders);
  const [host] = hosts;
  if (host === undefined) {
    return httpVersion === '1.1' ? 'The Host header is missing; HTTP/1.1 needs it.' : null;
  }
  if (hosts.length > 1) return 'There is more than one Host header; send one.';
  if (!HOST.test(host)) return 'The Host header must be a host name, with a port if need be.';
  if (target.startsWith('/')) return null;
  const named = ABSOLUTE.exec(target)?.[1];
  const isOther = named !== undefined && named.toLowerCase() !== host.toLowerCase();
  return isOther ? 'The request line names another host than the Host header.' : null;
}

function hostsOf(rawHeaders: readonly string[]): string[] {
  const hosts: string[] = [];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? '';
    if (name.length === 4 && name.toLowerCase() === 'host') hosts.push(rawHeaders[at + 1] ?? '');
  }
  return hosts;
}
