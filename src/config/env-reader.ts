/**
 * Reads environment variables into values and collects all problems. A problem is one line: the variable, what is
 * wrong, what to write instead. It never repeats a value that may contain a password.
 *
 * The parsers below return the value, or null for an invalid text.
 */
import { isIP } from 'node:net';
import { mostSimilar } from '../lib/similar.ts';
import { type Env, isSecretVariable } from './env-file.ts';
import { parseServer } from '../net/dns/dns-query.ts';
import { splitDatabaseUrl } from '../database/server/address.ts';
import { MIB } from '../lib/units.ts';

/** A variable as owners see it. @property value null when it is not set, or hidden */
export type ConfigVariable = {
  name: string;
  isSet: boolean;
  isHidden: boolean;
  value: string | null;
};

export class EnvReader {
  readonly problems: string[] = [];
  readonly #env: Env;
  readonly #known = new Set<string>();
  readonly #secrets = new Set<string>();

  constructor(env: Env) {
    this.#env = env;
  }

  /** Returns the trimmed text; null when absent or blank, so that `NAME=` unsets a variable. */
  text(name: string): string | null {
    this.#known.add(name);
    return this.#env[name]?.trim() || null;
  }

  /**
   * Returns the parsed value; null when the variable is absent or invalid.
   * @param parse returns null for an invalid text
   * @param rule how to write it: `write a number from 1 to 65535`
   */
  parsed<Value>(name: string, parse: (text: string) => Value | null, rule: string): Value | null {
    const text = this.text(name);
    if (text === null) return null;
    const value = parse(text);
    if (value === null)
      this.addProblem(name, `${JSON.stringify(text)} is not understood; ${rule}.`);
    return value;
  }

  /** Like `parsed`, for a secret value, which the problem does not repeat. */
  secret<Value>(name: string, parse: (text: string) => Value | null, rule: string): Value | null {
    this.#secrets.add(name);
    const text = this.text(name);
    if (text === null) return null;
    const value = parse(text);
    if (value === null) this.addProblem(name, `its value is not understood; ${rule}.`);
    return value;
  }

  /** Returns a comma-separated list, empty when absent. Each invalid item is a separate problem. */
  list<Value>(name: string, parse: (item: string) => Value | null, rule: string): Value[] {
    const items = (this.text(name) ?? '').split(',').map((item) => item.trim());
    const values: Value[] = [];
    for (const item of items.filter((each) => each !== '')) {
      const value = parse(item);
      if (value !== null) values.push(value);
      else this.addProblem(name, `${JSON.stringify(item)} is not understood; ${rule}.`);
    }
    return values;
  }

  flag(name: string): boolean {
    return this.parsed(name, parseFlag, 'write 1 or 0') ?? false;
  }

  addProblem(name: string, message: string): void {
    this.problems.push(`${name}: ${message}`);
  }

  /** Returns the variables that were read, by name. The value of a secret, and of what looks like one, is left out. */
  variables(): ConfigVariable[] {
    return [...this.#known].toSorted().map((name) => {
      const value = this.text(name);
      const isHidden = this.#secrets.has(name) || isSecretVariable(name, value ?? '');
      return { name, isSet: value !== null, isHidden, value: isHidden ? null : value };
    });
  }

  reportUnknown(prefix: string): void {
    const known = [...this.#known];
    // The prefix is no similarity: LETTERHAUS_WORKERS does not mean PORT.
    const bare = (name: string): string =>
      name.startsWith(prefix) ? name.slice(prefix.length) : name;
    const bareNames = known.map(bare);
    for (const [name, value] of Object.entries(this.#env)) {
      if (!name.startsWith(prefix) || this.#known.has(name) || isServiceLink(name, value)) continue;
      const nearest = mostSimilar(bare(name), bareNames);
      const suggestion = nearest === null ? undefined : known[bareNames.indexOf(nearest)];
      const hint =
        suggestion === undefined ? 'unset it' : `did you mean ${suggestion}? Rename or unset it`;
      this.addProblem(name, `there is no such variable; ${hint}.`);
    }
  }
}

/** Returns whether Kubernetes sets the variable in pods for a service named `letterhaus`. */
function isServiceLink(name: string, value = ''): boolean {
  return /_SERVICE_(HOST|PORT)|_PORT_\d+_(TCP|UDP)/.test(name) || /^(tcp|udp):\/\//.test(value);
}

function parseFlag(text: string): boolean | null {
  if (/^(1|true|on|yes)$/i.test(text)) return true;
  return /^(0|false|off|no)$/i.test(text) ? false : null;
}

export type Relay = {
  host: string;
  port: number;
  /** TLS from the first byte (`smtps://`); otherwise STARTTLS where it is offered. */
  implicitTls: boolean;
  auth: { user: string; pass: string } | null;
};

export function parsePort(text: string, min: 0 | 1): number | null {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : -1;
  return port >= min && port <= 65_535 ? port : null;
}

export function parseCount(text: string): number | null {
  const count = /^\d{1,7}$/.test(text) ? Number(text) : 0;
  return count >= 1 && count <= 1_000_000 ? count : null;
}

const MEGABYTES_MIN = 32;
const MEGABYTES_MAX = 1e9;

export function parseMegabytes(text: string): number | null {
  const megabytes = /^\d{1,10}$/.test(text) ? Number(text) : NaN;
  return megabytes >= MEGABYTES_MIN && megabytes <= MEGABYTES_MAX ? megabytes * MIB : null;
}

/** Accepts at most 600 s, the longest timeout of RFC 5321 (after the final dot). */
export function parseTimeoutMs(text: string): number | null {
  const seconds = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  return seconds >= 1 && seconds <= 600 ? seconds * 1000 : null;
}

const HOST_NAME =
  /^(?=.{1,253}$)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?)(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?)*$/i;

export function parseHost(text: string): string | null {
  return isIP(text) !== 0 || HOST_NAME.test(text) ? text : null;
}

/** Parses a name of the machine for EHLO (RFC 5321 §4.1.1.1), not necessarily fully qualified. */
export function parseHostName(text: string): string | null {
  return isIP(text) === 0 && HOST_NAME.test(text) ? text.toLowerCase() : null;
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
  return /^postgres(ql)?:\/\/.+/.test(text) && splitDatabaseUrl(text) !== null ? text : null;
}

const RELAY_PORTS = { 'smtps:': 465, submission: 587, 'smtp:': 25 };

/** The default port is the submission port with a password, and 25 without. */
export function parseRelay(text: string): Relay | null {
  const url = URL.parse(text);
  if (url === null || (url.protocol !== 'smtp:' && url.protocol !== 'smtps:')) return null;
  if (url.hostname === '' || (url.username === '') !== (url.password === '')) return null;
  if (url.search || url.hash || !/^\/?$/.test(url.pathname)) return null;
  const auth = decodeCredentials(url);
  if (auth === undefined || url.port === '0') return null;
  const defaultPort =
    RELAY_PORTS[auth !== null && url.protocol === 'smtp:' ? 'submission' : url.protocol];
  return {
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: url.port === '' ? defaultPort : Number(url.port),
    implicitTls: url.protocol === 'smtps:',
    auth,
  };
}

/** Returns null without credentials; undefined when they cannot be decoded. */
function decodeCredentials(url: URL): Relay['auth'] | undefined {
  if (url.username === '') return null;
  try {
    return { user: decodeURIComponent(url.username), pass: decodeURIComponent(url.password) };
  } catch {
    return undefined;
  }
}

export function parseOneOf<Known extends string>(
  known: readonly Known[],
): (text: string) => Known | null {
  return (text) => known.find((one) => one === text.toLowerCase()) ?? null;
}
