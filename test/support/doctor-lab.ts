/**
 * A healthy machine on loopback, as the checks of `letterhaus doctor` see it: its DNS, two large receivers, and an
 * empty data directory. A test spoils one part and runs one check:
 *
 *   const lab = await startDoctorLab();
 *   lab.dns.remove('1.0.0.127.in-addr.arpa');
 *   const [finding] = await lab.run(REVERSE_DNS);
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { CheckContext, Machine, OpenDatabase } from '../../src/doctor/check-context.ts';
import type { Finding } from '../../src/doctor/finding.ts';
import { type Check, runChecks } from '../../src/doctor/run-checks.ts';
import { type Config, readConfig } from '../../src/config/config.ts';
import {
  clientQueries,
  connectAsOwner,
  type DatabaseAddress,
} from '../../src/database/database.ts';
import { SCHEMA_KNOWN } from '../../src/migration/schema-version.ts';
import type { World } from '../../src/lib/world.ts';
import { createResolver } from '../../src/net/dns/resolver.ts';
import { systemWorld } from '../../src/service/machine/system-world.ts';
import { startFakeDns, type FakeDns, type FakeZone } from './fake-dns.ts';
import { startFakeMx, type FakeMx } from './fake-mx.ts';
import { cleanEnv, type Env } from './letterhaus.ts';

/** The name of the machine. test/support/certs/trusted.pem is valid for it. */
export const LAB_HOST = 'lab.mx.test';

/** Records outside of the machine, as a healthy internet has them. */
export const LAB_ZONE: FakeZone = {
  [LAB_HOST]: { A: ['127.0.0.1'] },
  '1.0.0.127.in-addr.arpa': { PTR: [LAB_HOST] },
  'gmail.com': { MX: ['5 gmail.receivers.test'], TXT: ['v=spf1 -all'] },
  'yahoo.com': { MX: ['1 yahoo.receivers.test'] },
  'outlook.com': { MX: ['5 outlook.receivers.test'] },
  'icloud.com': { MX: ['5 icloud.receivers.test'] },
  'gmx.de': { MX: ['5 gmx.receivers.test'] },
  'gmail.receivers.test': { A: ['127.0.2.1'] },
  'yahoo.receivers.test': { A: ['127.0.2.2'] },
  'ietf.org': { MX: ['0 mail.ietf.org'] },
  // The entries for tests, which every block list has.
  '2.0.0.127.zen.spamhaus.org': { A: ['127.0.0.2', '127.0.0.4'] },
  '2.0.0.127.bl.spamcop.net': { A: ['127.0.0.2'] },
  'dbltest.com.dbl.spamhaus.org': { A: ['127.0.1.2'] },
};

/** Starts the DNS of a healthy internet, which validates DNSSEC. */
export async function startLabDns(): Promise<FakeDns> {
  const dns = await startFakeDns(LAB_ZONE);
  dns.sign('ietf.org');
  dns.setFailure('dnssec-failed.org', 'servfail');
  return dns;
}

/** Starts the two receivers that the check of port 25 tries, on one port. */
export async function startReceivers(): Promise<{ gmail: FakeMx; yahoo: FakeMx; port: number }> {
  const gmail = await startFakeMx({}, { address: '127.0.2.1' });
  const yahoo = await startFakeMx({}, { address: '127.0.2.2', port: gmail.port });
  return { gmail, yahoo, port: gmail.port };
}

export type Changes = {
  env?: Env;
  config?: Partial<Config>;
  machine?: Partial<Machine>;
  world?: Partial<World>;
} & Partial<
  Pick<CheckContext, 'database' | 'domain' | 'configProblems' | 'dnsServers' | 'isFresh'>
>;

export type DoctorLab = AsyncDisposable & {
  dns: FakeDns;
  gmail: FakeMx;
  yahoo: FakeMx;
  dataDir: string;
  /** Variables of the healthy machine. */
  env: Env;
  context(changes?: Changes): CheckContext;
  run(check: Check, changes?: Changes): Promise<readonly Finding[]>;
};

export async function startDoctorLab(): Promise<DoctorLab> {
  await using parts = new AsyncDisposableStack();
  const dns = parts.use(await startLabDns());
  const { gmail, yahoo, port } = await startReceivers();
  parts.use(gmail);
  parts.use(yahoo);
  const dataDir = mkdtempSync(join(tmpdir(), 'letterhaus-test-'));
  parts.defer(() => rmSync(dataDir, { recursive: true }));
  const hostsFile = join(dataDir, 'hosts');
  writeFileSync(hostsFile, '127.0.0.1 localhost\n');
  const env = cleanEnv({
    LETTERHAUS_DATA_DIR: dataDir,
    LETTERHAUS_DNS_SERVERS: dns.server,
    LETTERHAUS_DNS_TRUST_AD: '1',
    LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1',
    LETTERHAUS_MX_PORT: String(port),
    LETTERHAUS_HOSTNAME: LAB_HOST,
    LETTERHAUS_SOURCE_IPS: '127.0.0.1',
  });
  const machine: Machine = {
    localIps: ['127.0.0.1'],
    hostsFile,
    timeHosts: [],
    rdapServers: 'https://registries.test/dns.json',
    workers: 1,
    isServiceRunning: false,
    workersStayRoot: false,
    hasApiCertificate: false,
    readDisk: () => Promise.resolve({ freeBytes: 100 * 1024 ** 3, files: 0, freeFiles: 0 }),
    readClockState: () => Promise.resolve('yes'),
    findCertificateProblems: () => ({ refusals: [], conditions: [], served: [], selfSigned: [] }),
  };
  const kept = parts.move();
  const context = (changes: Changes = {}): CheckContext => {
    const config = { ...configOf({ ...env, ...changes.env }), ...changes.config };
    const dnsServers = changes.dnsServers ?? config.dnsServers ?? [];
    const world = { ...systemWorld, random: () => 0.5, ...changes.world };
    const resolver = createResolver({
      servers: dnsServers,
      world,
      queryTimeoutMs: 1_000,
      budgetMs: 3_000,
      trustAuthenticatedData: config.dnsTrustAd,
    });
    kept.defer(() => resolver.close());
    return {
      config,
      resolver,
      dnsServers,
      world,
      configProblems: changes.configProblems ?? [],
      machine: { ...machine, ...changes.machine },
      database: changes.database ?? { kind: 'absent', reason: 'There is none in the lab.' },
      domain: changes.domain ?? null,
      isFresh: changes.isFresh ?? true,
    };
  };
  return {
    dns,
    gmail,
    yahoo,
    dataDir,
    env,
    context,
    run: async (check, changes) => (await runChecks([check], context(changes)))[0]!.findings,
    [Symbol.asyncDispose]: () => kept[Symbol.asyncDispose](),
  };
}

function configOf(env: Env): Config {
  const read = readConfig(env);
  if (!read.ok) throw new Error(read.problems.join('\n'));
  return read.config;
}

/** Opens a migrated database for checks. */
export async function openForChecks(
  address: DatabaseAddress,
): Promise<{ database: OpenDatabase } & AsyncDisposable> {
  const client = await connectAsOwner(address, 'test');
  const versions = { schema: SCHEMA_KNOWN, schemaKnown: SCHEMA_KNOWN };
  return {
    database: { kind: 'open', db: clientQueries(client), ...versions },
    [Symbol.asyncDispose]: () => client.end(),
  };
}
