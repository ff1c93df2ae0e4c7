/** Where the API and the metrics are served, and what is believed about who asks. */
import { isIP } from 'node:net';
import { oneOf, parseHost, parseNetwork, parsePort, parsePublicUrl } from './values.ts';
import { readTlsFiles } from './smtp.ts';
import type { EnvReader } from './env-reader.ts';

export type HttpConfig = {
  host: string;
  /** 0: any free one. */
  port: number;
  /** A port that was asked for and is taken ends the start; the default one moves on. */
  portAsked: boolean;
  trustedProxies: readonly string[];
  logLevel: string;
  /** Without a final slash; null: made from host and port. */
  publicUrl: string | null;
  /** Where metrics are served to everybody who can connect; null: nowhere. */
  metrics: { host: string; port: number } | null;
  /** What `/metrics` of the API asks for; null: it is not there. */
  metricsToken: string | null;
  /** Paths of PEM files; null: the API is served in clear text. */
  apiTlsFiles: { cert: string; key: string } | null;
};

const DEFAULT_PORT = 3000;
const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'];
const TOKEN_CHARACTERS_MIN = 16;

const PORT_RULE = 'write a number from 1 to 65535, or 0 for any';
const METRICS_RULE = 'write a port, as 9464, or an address with one, as 10.0.0.5:9464, or off';

export function readHttp(read: EnvReader): HttpConfig {
  const port = read.parsed('PORT', (text) => parsePort(text, 0), PORT_RULE);
  const host = read.parsed('HOST', parseHost, 'write an IP address or a host name');
  return {
    host: host ?? '127.0.0.1',
    port: port ?? DEFAULT_PORT,
    portAsked: port !== null,
    trustedProxies: read.list(
      'POSTHORN_TRUSTED_PROXIES',
      parseNetwork,
      'write IP addresses separated by commas (or networks, 10.0.0.0/8)',
    ),
    publicUrl: read.parsed(
      'POSTHORN_PUBLIC_URL',
      parsePublicUrl,
      'write it as https://mail.example.com',
    ),
    logLevel:
      read.parsed('POSTHORN_LOG', oneOf(LOG_LEVELS), `write one of ${LOG_LEVELS.join(', ')}`) ??
      'info',
    apiTlsFiles: readTlsFiles(read, 'POSTHORN_API_TLS'),
    metrics: readMetrics(read),
    metricsToken: read.secret(
      'POSTHORN_METRICS_TOKEN',
      (text) => (/^[\x21-\x7e]+$/.test(text) && text.length >= TOKEN_CHARACTERS_MIN ? text : null),
      `write at least ${TOKEN_CHARACTERS_MIN} random characters without spaces (openssl rand -hex 32)`,
    ),
  };
}

function readMetrics(read: EnvReader): HttpConfig['metrics'] {
  if (/^off$/i.test(read.text('POSTHORN_METRICS_PORT') ?? '')) return null;
  return read.parsed('POSTHORN_METRICS_PORT', parseMetrics, METRICS_RULE);
}

/** A port alone is one of the loopback address. */
function parseMetrics(text: string): HttpConfig['metrics'] {
  const [, bracketed, plain, digits = ''] = /^(?:\[(.+)\]:|([^:]+):)?(\d+)$/.exec(text) ?? [];
  const host = bracketed ?? plain ?? '127.0.0.1';
  const port = parsePort(digits, 0);
  return port === null || isIP(host) === 0 ? null : { host, port };
}
