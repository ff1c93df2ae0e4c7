/**
 * The machine and the database of a service as the checks of the doctor see them (doctor/check-context.ts). Used by
 * `letterhaus doctor`, and by the supervisor for its daily run.
 */
import { existsSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { availableParallelism, networkInterfaces } from 'node:os';
import { join } from 'node:path';
import type { Config } from '../../config/config.ts';
import { orderedNames } from '../../certificates/wanted.ts';
import type { NewCondition, OperatorEvents } from '../../core/operator-events.ts';
import { type DatabaseAddress, type Queryable, sqlStateOf } from '../../database/database.ts';
import { readRunning } from '../../database/embedded/lock.ts';
import type { CheckContext, DatabaseAccess, Disk, Machine } from '../../doctor/check-context.ts';
import { readClockState } from '../../doctor/database/clock.ts';
import type { World } from '../../lib/world.ts';
import { createResolver, systemServers } from '../../net/dns/resolver.ts';
import { readVersion } from '../../migration/migrate.ts';
import { SCHEMA_KNOWN } from '../../migration/schema-version.ts';
import { withReadOnlySession } from '../../migration/upgrade-facts.ts';
import { certificateUses, CertificateWatch, isSelfSigned, SERVED } from './certificate-watch.ts';
import { API_VARIABLES, type CertificateFiles, MAIL_VARIABLES, problemOf } from './certificates.ts';
import { userBeside } from './privileges.ts';

const HOSTS_FILE = '/etc/hosts';
/** The hosts of the MTA-STS policies of large receivers. */
const RDAP_SERVERS = 'https://data.iana.org/rdap/dns.json';
const TIME_HOSTS = ['mta-sts.gmail.com', 'mta-sts.outlook.com', 'mta-sts.yahoo.com'];

/** Shorter than the timeouts of deliveries, so that a run with a silent resolver ends within a minute or two. */
const LOOK_UP_TIMES = { queryTimeoutMs: 3_000, budgetMs: 8_000 };

type Examined = Omit<CheckContext, 'resolver' | 'dnsServers' | 'machine'>;

/** Runs `work` with the context of its checks. */
export async function withCheckContext<Result>(
  examined: Examined,
  work: (context: CheckContext) => Promise<Result>,
): Promise<Result> {
  const { config, world } = examined;
  const dnsServers = config.dnsServers ?? systemServers();
  const trustAuthenticatedData = config.dnsTrustAd;
  const resolver = createResolver({
    servers: dnsServers,
    world,
    trustAuthenticatedData,
    ...LOOK_UP_TIMES,
  });
  try {
    return await work({ ...examined, resolver, dnsServers, machine: machineOf(config, world) });
  } finally {
    resolver.close();
  }
}

const STATEMENT_TIMEOUT = `set statement_timeout = '10s'`;

/** Runs `work` with the database for its checks. @throws DatabaseUnavailable */
export function withCheckedDatabase<Result>(
  address: DatabaseAddress,
  work: (database: DatabaseAccess) => Promise<Result>,
): Promise<Result> {
  return withReadOnlySession(address, async (session) => {
    const db = oneByOne(session);
    await db.query(STATEMENT_TIMEOUT);
    const schema = await readVersion(db).catch(asReason);
    return work(
      typeof schema === 'number'
        ? { kind: 'open', db, schema, schemaKnown: SCHEMA_KNOWN }
        : { kind: 'unreachable', ...schema },
    );
  });
}

/** A role without rights on the tables, for example, is no reason to end the run. */
function asReason(error: unknown): { reason: string } {
  if (sqlStateOf(error) === null) throw error;
  return { reason: `The database cannot be read: ${(error as Error).message}.` };
}

/** A connection runs one statement at a time. */
function oneByOne(db: Queryable): Queryable {
  let last: Promise<unknown> = Promise.resolve();
  return {
    query: (statement, values) => {
      const next = last.then(() => db.query<never>(statement, values));
      last = next.catch(() => null);
      return next;
    },
  };
}

function machineOf(config: Config, world: World): Machine {
  const { databaseUrl, dataDir } = config;
  const interfaces = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return {
    localIps: interfaces.filter(({ internal }) => !internal).map(({ address }) => address),
    hostsFile: HOSTS_FILE,
    timeHosts: TIME_HOSTS,
    rdapServers: RDAP_SERVERS,
    workers: availableParallelism(),
    isServiceRunning: readRunning(dataDir)?.kind === 'service',
    workersStayRoot: databaseUrl !== null && stayRoot(databaseUrl, dataDir),
    hasApiCertificate: config.apiTlsFiles !== null || orderedNames(config).api !== null,
    readDisk,
    readClockState,
    findCertificateProblems: () => findCertificateProblems(config, world),
  };
}

async function readDisk(path: string): Promise<Disk> {
  const { bavail, bsize, files, ffree } = await statfs(path);
  return { freeBytes: bavail * bsize, files, freeFiles: ffree };
}

/** The embedded database always gives the workers of root a user of their own. */
function stayRoot(databaseUrl: string, dataDir: string): boolean {
  if (process.geteuid?.() !== 0) return false;
  try {
    return userBeside(databaseUrl, { dataDir, hasOwnLogin: true }) === null;
  } catch {
    // The socket's folder is not there. The check of the database says so.
    return false;
  }
}

/** Uses the watch of the service, which sees a pair of files that does not match only at its second look. */
function findCertificateProblems(
  config: Config,
  world: World,
): ReturnType<Machine['findCertificateProblems']> {
  const { apiTlsFiles, tlsFiles, inboundPort, submissionPorts, dataDir } = config;
  const hasMail = inboundPort !== null || submissionPorts.length > 0;
  const own = join(dataDir, 'secrets', 'mail-tls.pem');
  const mail = tlsFiles ?? (existsSync(own) ? { cert: own, key: own } : null);
  const nowMs = world.now();
  const refusalOf = (files: CertificateFiles | null, names: typeof API_VARIABLES): string[] => {
    const problem = files === null ? null : problemOf(files, nowMs, names);
    return problem === null ? [] : [problem];
  };
  const refusals = [
    ...refusalOf(apiTlsFiles, API_VARIABLES),
    ...(hasMail ? refusalOf(tlsFiles, MAIL_VARIABLES) : []),
  ];
  // An ordered certificate has no file before the first start.
  const uses = certificateUses(config, hasMail ? mail : null).filter(
    ({ isOrdered, files }) => !isOrdered || existsSync(files.cert),
  );
  const conditions = new Map<string, NewCondition>();
  const operatorEvents: OperatorEvents = {
    raise: (condition) => void conditions.set(condition.type + condition.subject, condition),
    clear: () => {},
  };
  const watch = new CertificateWatch(uses, { operatorEvents, world });
  watch.check();
  watch.check();
  return {
    refusals,
    conditions: refusals.length > 0 ? [] : [...conditions.values()],
    served: uses.map(({ of }) => SERVED[of].what),
    selfSigned: uses.filter(isSelfSigned).map(({ of }) => SERVED[of].what),
  };
}
