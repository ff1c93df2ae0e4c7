/**
 * The forms that configuration values may have. Each parser gives the value, or null for text that
 * is not of the form. Pure. Read by config.ts.
 */
import { BlockList, isIP } from 'node:net';
import { parseServer } from '../net/dns/exchange.ts';
import { urlsOf } from '../store/postgres/database-address.ts';

export type Relay = {
  host: string;
  port: number;
  /** TLS from the first byte (`smtps://`), else STARTTLS where it is offered. */
  implicitTls: boolean;
  auth: { user: string; pass: string } | null;
};

export function parsePort(text: string, least: 0 | 1): number | null {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : -1;
  return port >= least && port <= 65_535 ? port : null;
}

export function parseCount(text: string): number | null {
  const count = /^\d{1,7}$/.test(text) ? Number(text) : 0;
  return count >= 1 && count <= 1_000_000 ? count : null;
}

const MEGABYTES_MIN = 32;
const MEGABYTES_MAX = 1e9;

/** Reads megabytes as bytes. */
export function parseMegabytes(text: string): number | null {
  const megabytes = /^\d{1,10}$/.test(text) ? Number(text) : NaN;
  return megabytes >= MEGABYTES_MIN && megabytes <= MEGABYTES_MAX ? megabytes * 1024 ** 2 : null;
}

/** RFC 5321 has no longer wait than the 600 s after the final dot. */
export function parseTimeoutMs(text: string): number | null {
  const seconds = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  return seconds >= 1 && seconds <= 600 ? seconds * 1000 : null;
}

const HOST_NAME =
  /^(?=.{1,253}$)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?)(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?)*$/i;

export function parseHost(text: string): string | null {
  return isIP(text) !== 0 || HOST_NAME.test(text) ? text : null;
}

/** The name of the machine in EHLO (RFC 5321 §4.1.1.1); whether it is full is decided when it matters. */
export function parseHostName(text: string): string | null {
  return isIP(text) === 0 && HOST_NAME.test(text) ? text.toLowerCase() : null;
}

export function parseNetwork(text: string): string | null {
  const [ip = '', bits, ...rest] = text.split('/');
  const family = isIP(ip);
  if (family === 0 || rest.length > 0) return null;
  if (bits === undefined) return text;
  try {
    new BlockList().addSubnet(
      ip,
      /^\d+$/.test(bits) ? Number(bits) : -1,
      family === 4 ? 'ipv4' : 'ipv6',
    );
    return text;
  } catch {
    return null;
  }
}

export function parseDnsServer(text: string): string | null {
  const server = parseServer(text);
  if (server === null) return null;
  return isIP(server.ip) === 6 ? `[${server.ip}]:${server.port}` : `${server.ip}:${server.port}`;
}

export function parsePublicUrl(text: string): string | null {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol) || url.search || url.hash) return null;
  return url.href.replace(/\/+$/, '');
}

export function parseDatabaseUrl(text: string): string | null {
  return /^postgres(ql)?:\/\/.+/.test(text) && urlsOf(text) !== null ? text : null;
}

const RELAY_PORTS = { 'smtps:': 465, submission: 587, 'smtp:': 25 };

/** Without a port: the submission port when there is a password, else the one for servers. */
export function parseRelay(text: string): Relay | null {
  const url = URL.parse(text);
  if (url === null || (url.protocol !== 'smtp:' && url.protocol !== 'smtps:')) return null;
  if (url.hostname === '' || (url.username === '') !== (url.password === '')) return null;
  if (url.search || url.hash || !/^\/?$/.test(url.pathname)) return null;
  const auth = credentials(url);
  if (auth === undefined || url.port === '0') return null;
  const usual =
    RELAY_PORTS[auth !== null && url.protocol === 'smtp:' ? 'submission' : url.protocol];
  return {
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: url.port === '' ? usual : Number(url.port),
    implicitTls: url.protocol === 'smtps:',
    auth,
  };
}

/** null: none; undefined: not decodable. */
function credentials(url: URL): Relay['auth'] | undefined {
  if (url.username === '') return null;
  try {
    return { user: decodeURIComponent(url.username), pass: decodeURIComponent(url.password) };
  } catch {
    return undefined;
  }
}

export function oneOf(known: readonly string[]): (text: string) => string | null {
  return (text) => (known.includes(text.toLowerCase()) ? text.toLowerCase() : null);
}
