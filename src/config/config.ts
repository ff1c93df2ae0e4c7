/**
 * Reads the configuration from the environment once into one frozen object. Every setting has a default, so an empty
 * environment is valid. All problems are reported together, one line each with the fix, before anything starts.
 * docs/configuration.md documents the variables.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { isIPv4 } from 'node:net';
import { hostname, networkInterfaces } from 'node:os';
import { resolve } from 'node:path';
import {
  type ConfigVariable,
  EnvReader,
  parseCount,
  parseDatabaseUrl,
  parseDnsServer,
  parseHostName,
  parseMegabytes,
  parsePort,
  parseRelay,
  parseTimeoutMs,
  type Relay,
} from './env-reader.ts';
import { type Env, ENV_FILE, mergeEnvFiles } from './env-file.ts';
import { type AcmeConfig, readAcme } from './acme.ts';
import { type BackupConfig, readBackup } from './backup.ts';
import { type DnsProviderConfig, readDnsProvider } from './dns-provider.ts';
import { type HttpConfig, readHttp, readSmtp, type SmtpConfig } from './listeners.ts';
import { type OidcConfig, readOidc } from './oidc.ts';
import { type OperatorConfig, readOperator } from './operator.ts';
import { type ArmedFailpoint, parseFailpoints } from '../lib/failpoint.ts';
import { moduleFile } from './module-file.ts';
import { DEFAULT_LIMITS, type Limit, type LimitCategory, parseLimit } from '../core/limits.ts';
import {
  DEFAULT_RETENTION,
  outlivesMetadata,
  parsePeriodH,
  type Retention,
} from '../core/retention.ts';
import { MAIL_RETRY_WAITS_MS, parseRetryWaitMs } from '../core/retry.ts';
import type * as ShapingFile from '../delivery/shaping/settings-file.ts';
import { type ShapingSettings, DEFAULT_SHAPING } from '../delivery/shaping/settings.ts';
import type { Source } from '../delivery/shaping/sources.ts';
import { isLoopback } from '../net/ip-addresses.ts';
import { parseSecretKeys } from '../secrets/secret-keys.ts';

export type Config = Readonly<
  HttpConfig &
    SmtpConfig &
    OperatorConfig &
    DnsProviderConfig & {
      /** null: certificates are not ordered. */
      acme: AcmeConfig | null;
      /** null: members sign in with passwords only. */
      oidc: OidcConfig | null;
      /** null for the embedded PostgreSQL in the data directory. */
      databaseUrl: string | null;
      /** No mail is accepted while the database is this large; null for no limit. */
      databaseBytesMax: number | null;
      /** Limit on the stored mail of one project; null for half of the database's limit or disk. */
      storageBytesMax: number | null;
      dataDir: string;
      hostname: string;
      isHostnameConfigured: boolean;
      /** null when it is generated in the data directory. */
      secretKey: string | null;
      relay: Relay | null;
      /** Local addresses to send from, each with its name in EHLO; empty when the system chooses. */
      sources: readonly Source[];
      shaping: ShapingSettings;
      /** The waits after the first, second, … failed attempt; the last one repeats. */
      retryWaitsMs: readonly number[];
      /** `ip:port`; null for the servers of the system. */
      dnsServers: readonly string[] | null;
      dnsTrustAd: boolean;
      mxPort: number;
      mtaStsPort: number;
      /** Limit on every SMTP timeout; null for the timeouts of RFC 5321. */
      smtpTimeoutMs: number | null;
      allowPrivateNetworks: boolean;
      limits: Readonly<Record<LimitCategory, Limit>> & {
        /** null when recipients are limited only by the limit on emails. */
        readonly recipients: Limit | null;
      };
      acceptDatabaseDurability: boolean;
      /** Migrations that need a backup run without one. */
      migrateWithoutBackup: boolean;
      /** Limit per project and environment. */
      domainsMax: number;
      /** Limit per project and environment. */
      suppressionsMax: number;
      retention: Readonly<Retention>;
      backup: Readonly<BackupConfig>;
      /** Interval of looking for sending domains whose records are due for a check. */
      domainsEveryMs: number;
      reputationEveryMs: number;
      /** Only for tests of this service (test/README.md). */
      failpoints: readonly ArmedFailpoint[];
      /** The variables, for owners to look at. */
      variables: readonly ConfigVariable[];
    }
>;

type ConfigResult = { ok: true; config: Config } | { ok: false; problems: string[] };

/** Values of this machine that defaults and checks depend on. */
export type System = {
  isRoot: boolean;
  hostname: string;
  cloneDir: string;
  localIps: readonly string[];
};

const REPUTATION_EVERY_MS = 30_000;
const DOMAINS_EVERY_MS = 60_000;
const DOMAINS_MAX = 1_000;
/** A suppression takes about 2.6 KB with its history and events. */
const SUPPRESSIONS_MAX = 500_000;
const SECRET_KEY_CHARACTERS_MIN = 32;

const MEGABYTES_RULE = 'write megabytes, from 32 to 1000000000';
const PORT_RULE = 'write a number from 1 to 65535';
const TIMEOUT_RULE = 'write seconds, from 1 to 600';
const FAILPOINTS_RULE = 'it is for tests of Letterhaus only; unset it';
const COUNT_RULE = 'write a whole number from 1 to 1000000';

export function readConfig(processEnv: Env, system: System = readSystem()): ConfigResult {
  const { env, dataDir, problems } = mergeEnvFiles(processEnv, system);
  const read = new EnvReader(env);
  read.problems.push(...problems);
  const identity = readIdentity(read, system);
  const values = {
    ...readHttp(read),
    ...readStorage(read, dataDir),
    ...identity,
    ...readDelivery(read),
    sources: readSources(read, system, identity),
    ...readSmtp(read),
    ...readOperator(read),
    acme: readAcme(read),
    oidc: readOidc(read),
    ...readBackup(read),
    ...readDnsProvider(read),
    failpoints: read.parsed('LETTERHAUS_FAILPOINTS', parseFailpoints, FAILPOINTS_RULE) ?? [],
    limits: Object.freeze({
      sending: readLimit(read, 'SENDING'),
      recipients: read.parsed('LETTERHAUS_LIMIT_RECIPIENTS', parseLimit, LIMIT_RULE),
      verification: readLimit(read, 'VERIFICATION'),
      domains: readLimit(read, 'DOMAINS'),
      webhooks: readLimit(read, 'WEBHOOKS'),
      auth: readLimit(read, 'AUTH'),
    }),
    suppressionsMax:
      read.parsed('LETTERHAUS_SUPPRESSIONS_MAX', parseCount, COUNT_RULE) ?? SUPPRESSIONS_MAX,
    domainsMax: read.parsed('LETTERHAUS_DOMAINS_MAX', parseCount, COUNT_RULE) ?? DOMAINS_MAX,
    domainsEveryMs:
      read.parsed('LETTERHAUS_DOMAINS_INTERVAL_S', parseTimeoutMs, TIMEOUT_RULE) ??
      DOMAINS_EVERY_MS,
    retention: Object.freeze(readRetention(read)),
    reputationEveryMs:
      read.parsed('LETTERHAUS_REPUTATION_INTERVAL_S', parseTimeoutMs, TIMEOUT_RULE) ??
      // The former name of this variable.
      read.parsed('LETTERHAUS_GUARD_INTERVAL_S', parseTimeoutMs, TIMEOUT_RULE) ??
      REPUTATION_EVERY_MS,
  };
  for (const name of READ_ELSEWHERE) read.text(name);
  read.reportUnknown('LETTERHAUS_');
  const config: Config = Object.freeze({ ...values, variables: read.variables() });
  return read.problems.length === 0 ? { ok: true, config } : { ok: false, problems: read.problems };
}

/** Known variables that are not read here: commands read the first two, and env-file.ts the others. */
const READ_ELSEWHERE = [
  'LETTERHAUS_URL',
  'LETTERHAUS_API_KEY',
  'LETTERHAUS_DATA_DIR',
  ENV_FILE,
] as const;

function readSystem(): System {
  const interfaces = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return {
    isRoot: process.getuid?.() === 0,
    hostname: hostname(),
    cloneDir: resolve(import.meta.dirname, '../..'),
    localIps: interfaces.map(({ address }) => address),
  };
}

function readStorage(read: EnvReader, dataDir: string) {
  return {
    databaseUrl: read.secret(
      'DATABASE_URL',
      parseDatabaseUrl,
      'write it as postgres://user:password@host:5432/name (through a socket: postgres://user@localhost/name?host=/folder)',
    ),
    dataDir,
    secretKey: read.secret(
      'LETTERHAUS_SECRET_KEY',
      (text) => (isSecretKey(text) ? text : null),
      `write at least ${SECRET_KEY_CHARACTERS_MIN} random characters (openssl rand -hex 32), or several of them as new,old`,
    ),
    databaseBytesMax: read.parsed('LETTERHAUS_DATABASE_MAX_MB', parseMegabytes, MEGABYTES_RULE),
    storageBytesMax: read.parsed('LETTERHAUS_STORAGE_MAX_MB', parseMegabytes, MEGABYTES_RULE),
    acceptDatabaseDurability: read.flag('LETTERHAUS_ACCEPT_DATABASE_DURABILITY'),
    migrateWithoutBackup: read.flag('LETTERHAUS_MIGRATE_WITHOUT_BACKUP'),
  };
}

function readIdentity(read: EnvReader, system: System) {
  const rule = 'write a full host name, such as mail.example.com';
  const configured = read.parsed('LETTERHAUS_HOSTNAME', parseHostName, rule);
  return { hostname: configured ?? system.hostname, isHostnameConfigured: configured !== null };
}

function readDelivery(read: EnvReader) {
  const dnsServers = read.list(
    'LETTERHAUS_DNS_SERVERS',
    parseDnsServer,
    'write servers separated by commas, such as 9.9.9.9 or 127.0.0.1:5353 or [::1]:53',
  );
  const waitsMs = read.list(
    'LETTERHAUS_RETRY_WAITS',
    parseRetryWaitMs,
    'write waits separated by commas, such as 90s, 15m or 4h, from 10s to 24h',
  );
  return {
    relay: read.secret(
      'LETTERHAUS_RELAY_URL',
      parseRelay,
      'write it as smtp://user:password@host:587 or smtps://user:password@host:465, with special characters percent-encoded',
    ),
    shaping: readShaping(read),
    retryWaitsMs: waitsMs.length === 0 ? MAIL_RETRY_WAITS_MS : waitsMs,
    dnsServers: dnsServers.length === 0 ? null : dnsServers,
    dnsTrustAd: read.flag('LETTERHAUS_DNS_TRUST_AD'),
    mxPort: read.parsed('LETTERHAUS_MX_PORT', (text) => parsePort(text, 1), PORT_RULE) ?? 25,
    mtaStsPort:
      read.parsed('LETTERHAUS_MTA_STS_PORT', (text) => parsePort(text, 1), PORT_RULE) ?? 443,
    smtpTimeoutMs: read.parsed('LETTERHAUS_SMTP_TIMEOUT_S', parseTimeoutMs, TIMEOUT_RULE),
    allowPrivateNetworks: read.flag('LETTERHAUS_ALLOW_PRIVATE_NETWORKS'),
  };
}

function isSecretKey(text: string): boolean {
  const keys = parseSecretKeys(text);
  return keys.length > 0 && keys.every(({ length }) => length >= SECRET_KEY_CHARACTERS_MIN);
}

/** Parses `ip` or `ip=name`. The default name is the name of the machine. */
function readSources(
  read: EnvReader,
  { localIps }: System,
  identity: ReturnType<typeof readIdentity>,
): readonly Source[] {
  const parse = (text: string): Source | null => {
    const [ip = '', name, ...rest] = text.split('=').map((part) => part.trim());
    const heloName = name === undefined ? identity.hostname : parseHostName(name);
    // All of 127.0.0.0/8 belongs to this machine, even if its interfaces do not list it.
    const isLocal = localIps.includes(ip) || (isIPv4(ip) && isLoopback(ip));
    return isLocal && heloName !== null && rest.length === 0 ? { ip, heloName } : null;
  };
  const rule = `write addresses that this machine has (${localIps.join(', ')}), each alone or with its name in EHLO, such as 192.0.2.7=mail1.example.com`;
  const sources = read.list('LETTERHAUS_SOURCE_IPS', parse, rule);
  const ips = sources.map(({ ip }) => ip);
  const repeated = ips.find((ip, index) => ips.indexOf(ip) !== index);
  if (repeated !== undefined) {
    read.addProblem('LETTERHAUS_SOURCE_IPS', `${repeated} occurs twice; keep one.`);
  }
  return Object.freeze(sources);
}

const LIMIT_RULE = 'write requests per seconds, such as 100/60 (at most 86400 seconds)';

function readLimit(read: EnvReader, category: Uppercase<LimitCategory>): Limit {
  const defaultLimit = DEFAULT_LIMITS[category.toLowerCase() as LimitCategory];
  return read.parsed(`LETTERHAUS_LIMIT_${category}`, parseLimit, LIMIT_RULE) ?? defaultLimit;
}

const RETENTION_RULE =
  'write days or hours, such as 45d or 36h, at least a day, or off to keep it for ever';

/** The default for content is shortened to the retention of metadata. A longer configured value is a problem. */
function readRetention(read: EnvReader): Retention {
  const metadataH = readPeriodH(read, 'METADATA') ?? DEFAULT_RETENTION.metadataH;
  const configuredH = readPeriodH(read, 'CONTENT');
  const contentH = configuredH ?? Math.min(DEFAULT_RETENTION.contentH, metadataH);
  const retention = { contentH: nullForEver(contentH), metadataH: nullForEver(metadataH) };
  if (configuredH !== null && outlivesMetadata(retention)) {
    const what = 'content cannot be kept for longer than the email it belongs to';
    read.addProblem(
      'LETTERHAUS_RETENTION_CONTENT',
      `${what}; raise LETTERHAUS_RETENTION_METADATA too.`,
    );
  }
  return retention;
}

/** Returns hours; Infinity for ever. */
function readPeriodH(read: EnvReader, what: 'CONTENT' | 'METADATA'): number | null {
  const parse = (text: string) => (/^off$/i.test(text) ? Infinity : parsePeriodH(text));
  return read.parsed(`LETTERHAUS_RETENTION_${what}`, parse, RETENTION_RULE);
}

function nullForEver(hours: number): number | null {
  return hours === Infinity ? null : hours;
}

const SHAPING_FILE = 'LETTERHAUS_SHAPING';

function readShaping(read: EnvReader): ShapingSettings {
  const path = read.text(SHAPING_FILE);
  if (path === null) return DEFAULT_SHAPING;
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    const { code = 'error' } = error as NodeJS.ErrnoException;
    read.addProblem(
      SHAPING_FILE,
      `${path} cannot be read (${code}); write the path of a JSON file.`,
    );
    return DEFAULT_SHAPING;
  }
  // Loaded only with such a file: zod takes 50 ms of CPU time, which every command would pay.
  const file = moduleFile(new URL('../delivery/shaping/settings-file.ts', import.meta.url));
  const { parseShaping } = createRequire(import.meta.url)(file) as typeof ShapingFile;
  const parsed = parseShaping(text);
  if (!('problems' in parsed)) return parsed;
  for (const problem of parsed.problems) read.addProblem(SHAPING_FILE, `${path}: ${problem}.`);
  return DEFAULT_SHAPING;
}
