/**
 * `npm run ha-check`: two nodes of Letterhaus on three PostgreSQL servers with Patroni and etcd, all with the files of
 * deploy/ha. Clients send through both nodes while the leader is lost in several ways. Then the chaos ledger compares
 * what was accepted with what is stored and what arrived: nothing may be lost. A copy may come twice only if its
 * attempt is recorded as in doubt, or if no node could store its outcome. At the end a node runs through pgBouncer.
 *
 * Options: `--quick` loses the leader once, and leaves out the rest. `--only TEXT` takes the faults whose title
 * contains the text, or `pgBouncer`. `--logs FOLDER` keeps the logs of the nodes.
 *
 * Exit code 0: passed, 1: failed, 75: the packages of Debian cannot be had, so nothing was checked.
 */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { countDuplicates } from '../chaos/ledger/duplicates.ts';
import { readStored } from '../chaos/ledger/evidence.ts';
import { compare } from '../chaos/ledger/ledger.ts';
import type { Copy, Disturbance, Evidence } from '../chaos/ledger/ledger-types.ts';
import { asOwner } from '../support/postgres.ts';
import { liveEnv, newPeers, type Peers } from '../support/scene.ts';
import { type Service, startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';
import { type Cluster, startCluster } from './cluster.ts';
import { FAULTS, type Fault } from './faults.ts';
import { Load } from './load.ts';
import { checkPooler } from './pooler.ts';
import { findPrograms } from './programs.ts';

const NOT_CHECKED = 75; // EX_TEMPFAIL of sysexits.h
const FINDINGS_SHOWN_MAX = 12;
const DRAINED_WITHIN_MS = 240_000;
const WORKERS = 1;
const ENV = { LETTERHAUS_SECRET_KEY: 'a'.repeat(64) };
/** Emails accepted before each fault and after its end. */
const EMAILS = 60;
/** A lost leader cuts all nodes off from the database. */
const ANY_NODE = 'any';
const begunMs = performance.now();
const { values: OPTIONS } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string', default: '' },
    logs: { type: 'string' },
  },
});
const CHOSEN = FAULTS.filter(({ title }) => title.includes(OPTIONS.only));
const CHOSEN_FAULTS = OPTIONS.quick ? CHOSEN.slice(0, 1) : CHOSEN;
const WITH_POOLER = !OPTIONS.quick && 'pgBouncer'.includes(OPTIONS.only);

async function main(): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'letterhaus-ha-'));
  if (OPTIONS.logs !== undefined) mkdirSync(OPTIONS.logs, { recursive: true });
  const remove = (): void =>
    rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  process.once('exit', remove); // also after a signal (cluster.ts)
  try {
    const programs = findPrograms(folder);
    if ('missing' in programs) return notChecked(programs.missing);
    log('starting three database machines');
    await using cluster = await startCluster(folder, programs);
    if (cluster === null)
      return notChecked('a program listens on one of the ports on all addresses');
    await using peers = await newPeers();
    const isGood = CHOSEN_FAULTS.length === 0 || (await checkFailOver(cluster, peers));
    if (!WITH_POOLER) return isGood ? 0 : 1;
    log('a node runs through pgBouncer');
    await checkPooler(cluster, { folder, programs, peers, env: ENV });
    log('pgBouncer: session mode works, the others are refused');
    return isGood ? 0 : 1;
  } finally {
    remove();
  }
}

function notChecked(reason: string): number {
  process.stderr.write(`The fail-over was not checked: ${reason}.\n`);
  return NOT_CHECKED;
}

function log(line: string): void {
  process.stderr.write(`${seconds(performance.now() - begunMs).padStart(6)} s  ${line}\n`);
}

function seconds(ms: number): string {
  return (ms / 1_000).toFixed(1);
}

async function checkFailOver(cluster: Cluster, peers: Peers): Promise<boolean> {
  await using first = await startNode('first', { cluster, peers });
  await first.addLiveDomain('acme.example.org');
  const key = await first.liveKey();
  await using second = await startNode('second', { cluster, peers });
  await requireGreen(first);
  const load = new Load([first, second], key);
  const disturbances: Disturbance[] = [];
  for (const fault of CHOSEN_FAULTS) disturbances.push(await suffer(fault, { cluster, load }));
  await load.end();
  log(`${load.requests.length} emails accepted; the queue drains`);
  const sql = queriesOf(cluster);
  await waitFor(async () => (await sql('select from queue limit 1')).length === 0, {
    what: 'an empty queue',
    timeoutMs: DRAINED_WITHIN_MS,
  });
  await requireGreen(second);
  const evidence = { ...(await gather(cluster, { load, peers })), disturbances };
  const findings = compare(evidence);
  for (const { kind, what } of findings.slice(0, FINDINGS_SHOWN_MAX)) log(`${kind}: ${what}`);
  const { extra, inDoubt, atDisturbances } = countDuplicates(evidence);
  const isGood = findings.length === 0;
  const refused = [...load.refusals].map(
    ([status, count]) => `${count} times ${status || 'no answer'}`,
  );
  const twice = `${extra} twice (${inDoubt} in doubt, ${atDisturbances} during faults)`;
  process.stdout.write(
    `ha-check: ${load.requests.length} accepted, ${evidence.copies.length} copies, ${twice}, ` +
      `refused ${refused.join(', ') || 'none'}, ${findings.length} findings: ` +
      `${isGood ? 'PASS' : 'FAIL'}\n`,
  );
  return isGood;
}

type Parts = { cluster: Cluster; peers: Peers };

function startNode(name: string, { cluster, peers }: Parts): Promise<Service> {
  const address = { connectionString: cluster.url };
  const setReachable = () => Promise.reject(new Error('lose a machine'));
  return startService({
    dns: peers.dns,
    database: { url: cluster.url, address, setReachable },
    env: liveEnv(peers, ENV),
    args: ['--workers', String(WORKERS)],
    ...(OPTIONS.logs !== undefined && { logFile: join(OPTIONS.logs, `${name}.log`) }),
  });
}

/** The doctor sees a synchronous standby. */
async function requireGreen(node: Service): Promise<void> {
  const { stdout } = await node.cli('doctor', '--only', 'database_replication', '--json');
  const { findings } = JSON.parse(stdout) as { findings: { level: string; found: string }[] };
  for (const { level, found } of findings) log(`doctor: ${level}: ${found}`);
  assert.ok(
    findings.every(({ level }) => level === 'green'),
    stdout,
  );
}

async function suffer(
  fault: Fault,
  { cluster, load }: { cluster: Cluster; load: Load },
): Promise<Disturbance> {
  await untilAccepted(load, EMAILS);
  const sinceMs = performance.now();
  const fromMs = Date.now();
  const heal = await fault.begin(cluster);
  await untilAccepted(load, EMAILS);
  log(`${fault.title}: ${seconds(load.longestPauseMs(sinceMs))} s without a 202`);
  await heal();
  await cluster.untilHealthy();
  log('all three machines are there again');
  await untilAccepted(load, EMAILS);
  return { node: ANY_NODE, fromMs, toMs: Date.now(), what: fault.title };
}

async function untilAccepted(load: Load, more: number): Promise<void> {
  const before = load.acceptedAtMs.length;
  await waitFor(() => load.acceptedAtMs.length >= before + more, {
    what: `${more} more emails to be accepted`,
    timeoutMs: DRAINED_WITHIN_MS,
  });
}

function queriesOf(cluster: Cluster): Parameters<typeof readStored>[0] {
  return (text, values = []) =>
    asOwner({ connectionString: cluster.url }, (db) => db.query(text, values));
}

/** The kinds of evidence that only the chaos test has. */
const NOTHING_ELSE = {
  webhooks: [],
  cancels: [],
  streams: [],
  skews: [],
  disturbances: [],
  freezes: [],
  suppressed: [],
  acceptedWithRevokedKey: [],
  acceptedFromRemovedDomain: [],
  stopped: [],
  attacks: [],
  shown: { ids: [], own: new Set<string>() },
  testLookups: [],
} satisfies Partial<Evidence>;

async function gather(
  cluster: Cluster,
  { load, peers }: { load: Load; peers: Peers },
): Promise<Evidence> {
  const { left, ...stored } = await readStored(queriesOf(cluster));
  return {
    ...stored,
    requests: load.requests,
    copies: peers.mx.messages.flatMap(copiesOf),
    left: { ...left, workers: 2 * WORKERS },
    ...NOTHING_ELSE,
    mayEndAs: () => ['delivered'],
    needsVerifiedTls: () => false,
  };
}

function copiesOf({ raw, recipients, at }: Peers['mx']['messages'][number]): Copy[] {
  const emailId = /^Message-ID: <([^@]+)@/m.exec(raw.toString('latin1'))?.[1] ?? 'none';
  return recipients.map((address) => ({
    emailId,
    address,
    atMs: at,
    node: ANY_NODE,
    sessionBegunMs: at,
    isTlsVerified: false,
  }));
}

process.exitCode = await main();
process.exit();
