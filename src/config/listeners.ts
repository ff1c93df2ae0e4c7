/** The listeners for HTTP and SMTP: addresses, ports, certificates, and trusted proxies. */
import { isIP } from 'node:net';
import { resolve } from 'node:path';
import { LOG_RECIPIENTS, type LogRecipients } from '../mail/logged-recipient.ts';
import {
  type EnvReader,
  parseOneOf,
  parseHost,
  parseMegabytes,
  parsePort,
  parsePublicUrl,
  parseTimeoutMs,
} from './env-reader.ts';
import { parseNetwork } from '../net/networks.ts';
import { MIB } from '../lib/units.ts';

export type HttpConfig = {
  host: string;
  /** 0 for any free port. */
  port: number;
  /** If a configured port is in use, the start fails. Instead of the default port, the next free one is used. */
  isPortConfigured: boolean;
  trustedProxies: readonly string[];
  logLevel: string;
  logRecipients: LogRecipients;
  /** Without a trailing slash; null when it is derived from host and port. */
  publicUrl: string | null;
  /** Prefix of the links in tracked emails, without a trailing slash; null for the public URL. */
  trackingUrl: string | null;
  /** The listener that serves metrics without a token; null for none. */
  metrics: { host: string; port: number } | null;
  /** The token that `/metrics` of the API requires; null when the route does not exist. */
  metricsToken: string | null;
  /** Paths of PEM files; null for plain HTTP. */
  apiTlsFiles: { cert: string; key: string } | null;
};

const DEFAULT_PORT = 3000;
const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'];
const TOKEN_CHARACTERS_MIN = 16;

const PORT_RULE = 'write a number from 1 to 65535, or 0 for any';
const METRICS_RULE =
  'write a port, such as 9464, or an address with one, such as 10.0.0.5:9464, or off';

export function readHttp(read: EnvReader): HttpConfig {
  const port = read.parsed('PORT', (text) => parsePort(text, 0), PORT_RULE);
  const host = read.parsed('HOST', parseHost, 'write an IP address or a host name');
  return {
    host: host ?? '127.0.0.1',
    port: port ?? DEFAULT_PORT,
    isPortConfigured: port !== null,
    trustedProxies: read.list(
      'LETTERHAUS_TRUSTED_PROXIES',
      parseNetwork,
      'write IP addresses separated by commas (or networks, 10.0.0.0/8)',
    ),
    publicUrl: read.parsed(
      'LETTERHAUS_PUBLIC_URL',
      parsePublicUrl,
      'write it as https://mail.example.com',
    ),
    trackingUrl: read.parsed(
      'LETTERHAUS_TRACKING_URL',
      parsePublicUrl,
      'write it as https://links.example.com',
    ),
    logLevel:
      read.parsed(
        'LETTERHAUS_LOG',
        parseOneOf(LOG_LEVELS),
        `write one of ${LOG_LEVELS.join(', ')}`,
      ) ?? 'info',
    logRecipients:
      read.parsed(
        'LETTERHAUS_LOG_RECIPIENTS',
        parseOneOf(LOG_RECIPIENTS),
        `write one of ${LOG_RECIPIENTS.join(', ')}`,
      ) ?? 'domain',
    apiTlsFiles: readTlsFiles(read, 'LETTERHAUS_API_TLS'),
    metrics: readMetrics(read),
    metricsToken: read.secret(
      'LETTERHAUS_METRICS_TOKEN',
      (text) => (/^[\x21-\x7e]+$/.test(text) && text.length >= TOKEN_CHARACTERS_MIN ? text : null),
      `write at least ${TOKEN_CHARACTERS_MIN} random characters without spaces (openssl rand -hex 32)`,
    ),
  };
}

function readMetrics(read: EnvReader): HttpConfig['metrics'] {
  if (/^off$/i.test(read.text('LETTERHAUS_METRICS_PORT') ?? '')) return null;
  return read.parsed('LETTERHAUS_METRICS_PORT', parseMetricsAddress, METRICS_RULE);
}

/** A port without an address listens on loopback. */
function parseMetricsAddress(text: string): HttpConfig['metrics'] {
  const [, bracketed, plain, digits = ''] = /^(?:\[(.+)\]:|([^:]+):)?(\d+)$/.exec(text) ?? [];
  const host = bracketed ?? plain ?? '127.0.0.1';
  const port = parsePort(digits, 0);
  return port === null || isIP(host) === 0 ? null : { host, port };
}

type SubmissionPort = {
  /** 0 for any free port. */
  port: number;
  /** TLS from the first byte, otherwise STARTTLS. */
  implicitTls: boolean;
};

export type SmtpConfig = {
  /** null for all addresses of this machine. */
  smtpHost: string | null;
  inboundPort: number | null;
  submissionPorts: readonly SubmissionPort[];
  /** Whether `Received` of submitted mail names the client. */
  submissionShowsClient: boolean;
  /** Timeout of the log-in, and of commands at the inbound port; null for the defaults. */
  smtpClientTimeoutMs: number | null;
  unmatchedBytesMax: number;
  /** Paths of PEM files; null for a self-signed certificate. */
  tlsFiles: { cert: string; key: string } | null;
};

/** RFC 8314 §7.3. */
const SUBMISSIONS_PORT = 465;

const MAIL_PORT_RULE = 'write a number from 1 to 65535, 0 for any, or off';
const UNMATCHED_BYTES_MAX = 256 * MIB;

const UNMATCHED_RULE = 'write megabytes, from 32 to 1000000000';
const TIMEOUT_RULE = 'write seconds, from 1 to 600';
const PORTS_RULE =
  'write ports separated by commas, such as 587,465; a port followed by /tls begins with TLS, as 465 always does';

export function readSmtp(read: EnvReader): SmtpConfig {
  const isOff = (text: string | null) => text === null || /^off$/i.test(text);
  const inboundPort = isOff(read.text('LETTERHAUS_INBOUND_PORT'))
    ? null
    : read.parsed('LETTERHAUS_INBOUND_PORT', (text) => parsePort(text, 0), MAIL_PORT_RULE);
  const submissionPorts = isOff(read.text('LETTERHAUS_SUBMISSION_PORTS'))
    ? []
    : read.list('LETTERHAUS_SUBMISSION_PORTS', parseSubmissionPort, PORTS_RULE);
  const rule = 'write an IP address or a host name';
  refuseRepeatedPorts(read, [...submissionPorts.map(({ port }) => port), inboundPort ?? 0]);
  return {
    smtpHost: read.parsed('LETTERHAUS_SMTP_HOST', parseHost, rule),
    inboundPort,
    submissionPorts,
    submissionShowsClient: read.flag('LETTERHAUS_SUBMISSION_SHOW_CLIENT'),
    smtpClientTimeoutMs: read.parsed(
      'LETTERHAUS_SMTP_CLIENT_TIMEOUT_S',
      parseTimeoutMs,
      TIMEOUT_RULE,
    ),
    unmatchedBytesMax:
      read.parsed('LETTERHAUS_UNMATCHED_MB', parseMegabytes, UNMATCHED_RULE) ?? UNMATCHED_BYTES_MAX,
    tlsFiles: readTlsFiles(read, 'LETTERHAUS_TLS'),
  };
}

function parseSubmissionPort(text: string): SubmissionPort | null {
  const [number = '', ...words] = text.split('/');
  const port = parsePort(number, 0);
  if (port === null || words.length > 1 || !/^(tls)?$/i.test(words[0] ?? '')) return null;
  return { port, implicitTls: port === SUBMISSIONS_PORT || words.length === 1 };
}

function refuseRepeatedPorts(read: EnvReader, ports: readonly number[]): void {
  const configured = ports.filter((port) => port !== 0);
  const repeated = configured.find((port, index) => configured.indexOf(port) !== index);
  if (repeated === undefined) return;
  read.addProblem('LETTERHAUS_SUBMISSION_PORTS', `port ${repeated} occurs twice; choose another.`);
}

/** Reads two variables; both or neither must be set. */
function readTlsFiles(
  read: EnvReader,
  prefix: 'LETTERHAUS_TLS' | 'LETTERHAUS_API_TLS',
): SmtpConfig['tlsFiles'] {
  const names = { cert: `${prefix}_CERT`, key: `${prefix}_KEY` };
  const [cert, key] = [read.text(names.cert), read.text(names.key)];
  if (cert === null && key === null) return null;
  if (cert !== null && key !== null) return { cert: resolve(cert), key: resolve(key) };
  const missing = cert === null ? names.cert : names.key;
  const what = cert === null ? 'the certificate' : 'its private key';
  read.addProblem(missing, `the path of ${what} is missing; set both or neither.`);
  return null;
}
