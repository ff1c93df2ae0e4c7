/** The installation as its checks see it. service/machine/doctor-context.ts makes one from the configuration. */
import type { Config } from '../config/config.ts';
import type { NewCondition } from '../core/operator-events.ts';
import type { Queryable } from '../database/database.ts';
import type { World } from '../lib/world.ts';
import type { Resolver } from '../net/dns/resolver.ts';
import { type Finding, unknown } from './finding.ts';

export type CheckContext = {
  /** Without the variables of `configProblems`, which have their defaults. */
  config: Config;
  /** One sentence for each variable that would end a start. */
  configProblems: readonly string[];
  resolver: Resolver;
  dnsServers: readonly string[];
  machine: Machine;
  database: DatabaseAccess;
  /** The only domain to check, or null for all live domains. */
  domain: string | null;
  /** Connects to servers of others even if an earlier run has just done so. */
  isFresh: boolean;
  world: World;
};

export type Machine = {
  /** Addresses of the interfaces, without loopback. */
  localIps: readonly string[];
  /** `/etc/hosts`, except in tests. */
  hostsFile: string;
  /** Web servers of others, whose clocks are right. */
  timeHosts: readonly string[];
  /** URL of the list of registries by top-level domain (RFC 9224). */
  rdapServers: string;
  /** Processes that `letterhaus start` starts without --workers. */
  workers: number;
  /** The service of the data directory runs now. */
  isServiceRunning: boolean;
  /** Root starts the service, and its workers cannot change to another user. */
  workersStayRoot: boolean;
  /** The API has a certificate: the operator's, or one that the service orders. */
  hasApiCertificate: boolean;
  readDisk(path: string): Promise<Disk>;
  /** Whether NTP sets the clock, or null when the system does not say. */
  readClockState(): Promise<'yes' | 'no' | null>;
  /** Returns the conditions of the served certificates, and why a start would refuse them. */
  findCertificateProblems(): {
    refusals: string[];
    conditions: NewCondition[];
    served: string[];
    /** The served certificates that no authority has issued. */
    selfSigned: string[];
  };
};

/** `files` is 0 where the file system has no limit on files. */
export type Disk = { freeBytes: number; files: number; freeFiles: number };

export type DatabaseAccess =
  | {
      kind: 'open';
      /** A session of the owner that cannot write. */
      db: Queryable;
      /** Version of its schema; 0: none. */
      schema: number;
      schemaKnown: number;
    }
  /** There is no installation yet. */
  | { kind: 'absent'; reason: string }
  /** It cannot be opened. */
  | { kind: 'unreachable'; reason: string };

export type OpenDatabase = Extract<DatabaseAccess, { kind: 'open' }>;

/** Runs the check if the database is open; otherwise returns one `unknown` with the reason. */
export async function withDatabase(
  { database }: Pick<CheckContext, 'database'>,
  check: (database: OpenDatabase) => Promise<readonly Finding[]>,
): Promise<readonly Finding[]> {
  if (database.kind === 'open') return check(database);
  return [unknown(`The database cannot be read: ${database.reason}`)];
}

/** Also requires the schema of this version. */
export function withTables(
  context: Pick<CheckContext, 'database'>,
  check: (db: Queryable) => Promise<readonly Finding[]>,
): Promise<readonly Finding[]> {
  return withDatabase(context, async ({ db, schema, schemaKnown }) => {
    if (schema === schemaKnown) return check(db);
    const found = `The database has schema ${schema}, and this version reads schema ${schemaKnown}.`;
    return [unknown(found, { remedy: 'Run the doctor of the version that runs the service.' })];
  });
}
