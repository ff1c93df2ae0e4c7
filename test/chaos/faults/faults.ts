/**
 * The faults, one function each. Each function injects its fault, waits until it is over, and leaves the recovery to
 * the keepers of the nodes. It records a fault that may cause duplicates before the injection.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { waitFor } from '../../support/wait.ts';
import type { TcpProxy } from '../../support/tcp-proxy.ts';
import type { Service } from '../../support/service.ts';
import type { FailpointPlan } from './armed-failpoints.ts';
import { HOUR_MS, isRefusing, JUMPS } from './clocks.ts';
import type { RandomSource } from '../random.ts';
import type { Finding, Freeze } from '../ledger/ledger-types.ts';
import { DATABASE_FAULTS } from './database-faults.ts';
import { SUPPRESSED_MEANWHILE } from '../load/emails.ts';
import type { Attacker } from '../attacker/attacker.ts';
import type { Load } from '../load/load.ts';
import type { ChaosNode } from '../node.ts';
import type { Fault } from './schedule.ts';
import { newLiveKey, suppress } from '../fixtures.ts';
import type { Stage } from '../stage.ts';

export type FaultContext = {
  stage: Stage;
  load: Load;
  attacker: Attacker;
  plan: FailpointPlan;
  random: RandomSource;
  freezes: Freeze[];
  findings: Finding[];
  suppressed: { address: string; sinceMs: number }[];
  stopped: { emailId: string; address: string; sinceMs: number }[];
  log: (line: string) => void;
  clockJumps: number;
  /** True when there is time for an outage of a minute. */
  isLong: boolean;
};

/**
 * Milliseconds of a freeze, more than the 15 s after which a silent node is declared dead and the checks in between.
 */
const FREEZE_MS = 22_000;
/**
 * Milliseconds of a stall, below the silence after which a supervisor kills its worker
 * (src/service/pool/frozen-worker-watch.ts).
 */
const STALL_MAX_MS = 6_000;
const TAKEOVER_MS = 20_000;
/** Milliseconds until a node that was cut off from its database works normally again, even after a lost lease. */
const RECOVERY_MS = 15_000;
const CLI_TRIES = 10;
const CLOCK_STEPS = 3;
/**
 * Milliseconds until a frozen worker is replaced. Its supervisor may be frozen, killed or stopped at the same time. A
 * worker that is frozen while it loads its code is killed after 60 s.
 */
const REPLACED_WITHIN_MS = 90_000;
/** Maximum of jumps by an hour. Mail lives for three days of this clock, and draining needs two of them. */
const CLOCK_JUMPS_MAX = 12;

/** Counts the leases of workers, by process id. */
const LEASES = 'select count(*)::int as count from nodes where pid = any($1)';

export const INJECT: Readonly<Record<Fault, (context: FaultContext) => Promise<void>>> = {
  async kill_worker({ stage, random }) {
    const node = random.pick(stage.nodes);
    const [pid] = random.shuffled(await node.workerPids());
    if (pid === undefined) return;
    node.signal(pid, 'SIGKILL');
    node.disturbed('worker killed');
  },
  async kill_supervisor({ stage, random }) {
    await random.pick(stage.nodes).killSupervisor();
  },
  /** Kills a node. A node without its own database may stay down until another node has declared it dead. */
  async kill_node({ stage, random, plan }) {
    const isNeeded = plan.unhit.has('reclaim_before_commit');
    const node = random.pick(isNeeded ? stage.nodes.slice(1) : stage.nodes);
    node.isKeptDown = isNeeded || (node !== stage.nodes[0] && random.chance(0.3));
    await node.killWhole();
    const isTaken = (): boolean => isNeeded && !plan.unhit.has('reclaim_before_commit');
    if (node.isKeptDown) {
      await waitFor(isTaken, { what: 'a takeover', timeoutMs: TAKEOVER_MS }).catch(() => {});
    }
    node.isKeptDown = false;
  },
  async kill_everything({ stage }) {
    signalDatabase(stage, 'SIGKILL');
    await Promise.all(stage.nodes.map((node) => node.killWhole()));
  },
  async kill_database({ stage }) {
    for (const node of stage.nodes) node.disturbed('database killed', Date.now(), recoveryEndMs());
    signalDatabase(stage, 'SIGKILL');
  },
  async restart_database({ stage, random }) {
    for (const node of stage.nodes)
      node.disturbed('database restarted', Date.now(), recoveryEndMs());
    // Sends PostgreSQL a fast or an immediate shutdown. The supervisor starts the database again.
    signalDatabase(stage, random.pick(['SIGINT', 'SIGQUIT']));
  },
  async stop_under_load({ stage, random }) {
    await random.pick(stage.nodes).stop();
  },
  /** Freezes a worker. Its supervisor kills it and starts another one before its lease passes to another node. */
  async freeze_worker({ stage, random, findings, log }) {
    const [pid, node] = await anyWorker(stage, random);
    if (pid === undefined || node.isFrozen || node.frozenPid !== null) return;
    const fromMs = Date.now();
    const disturbance = node.disturbed('worker frozen', fromMs, Infinity);
    node.frozenPid = pid;
    node.signal(pid, 'SIGSTOP');
    await waitFor(() => !isRunning(pid), {
      what: 'the end of a frozen worker',
      timeoutMs: REPLACED_WITHIN_MS,
    }).catch(() => findings.push({ kind: 'frozen_worker_kept', what: `${node.name}: ${pid}` }));
    log(`the frozen worker ${pid} of ${node.name} ended after ${Date.now() - fromMs} ms`);
    node.signal(pid, 'SIGKILL');
    disturbance.toMs = recoveryEndMs();
    node.thawed(pid);
  },
  /** Freezes supervisor and workers, as on a suspended machine. No mail that they had leased may be sent after it. */
  async freeze_node({ stage, random, freezes, log }) {
    const node = random.pick(stage.nodes.slice(1));
    if (node.isFrozen || node.frozenPid !== null || !node.isAlive) return;
    const workers = await node.workerPids();
    const fromMs = Date.now();
    const disturbance = node.disturbed('node frozen', fromMs, Infinity);
    const group = -node.service.pid;
    const { isUp } = node;
    node.isFrozen = true;
    node.isUp = false;
    node.signal(group, 'SIGSTOP');
    await delay(FREEZE_MS);
    // On a loaded machine the other nodes need longer. A worker that they have not expired may go on with its mail.
    const areExpired = async () => (await stage.sql(LEASES, [workers]))[0].count === 0;
    const isExpired = await waitFor(areExpired, { what: 'the end of its leases' }).catch(
      () => false,
    );
    // The freeze is recorded before the signal, because the node must not send from here on.
    if (isExpired) freezes.push({ node: node.name, fromMs, toMs: Date.now() });
    else log(`${node.name} was frozen for ${Date.now() - fromMs} ms, and no node has expired it`);
    disturbance.toMs = recoveryEndMs();
    node.signal(group, 'SIGCONT');
    node.isFrozen = false;
    node.isUp = isUp && node.isAlive;
  },
  async stall_worker({ stage, random }) {
    const [pid, node] = await anyWorker(stage, random);
    // The end of this fault would wake a frozen worker before another node has declared it dead.
    if (pid === undefined || node.isFrozen || node.frozenPid !== null) return;
    node.frozenPid = pid;
    node.signal(pid, 'SIGSTOP');
    await delay(random.between(1_000, STALL_MAX_MS));
    node.signal(pid, 'SIGCONT');
    node.thawed(pid);
  },
  database_refused: (context) =>
    whileCutOff(context, async (proxy) => {
      await proxy.refuse();
      await delay(context.random.between(2_000, context.isLong ? 60_000 : 8_000));
      await proxy.heal();
    }),
  database_silent: (context) =>
    whileCutOff(context, async (proxy) => {
      proxy.stall();
      await delay(context.random.between(2_000, 18_000));
      await proxy.heal();
    }),
  database_slow: (context) =>
    whileCutOff(context, async (proxy) => {
      proxy.slow(context.random.between(20, 2_000));
      await delay(6_000);
      await proxy.heal();
    }),
  database_sliced: (context) =>
    whileCutOff(context, async (proxy) => {
      proxy.slice(context.random.between(16, 256));
      await delay(6_000);
      await proxy.heal();
    }),
  database_narrow: (context) =>
    whileCutOff(context, async (proxy) => {
      proxy.narrow(10_000);
      await delay(8_000);
      await proxy.heal();
    }),
  database_cut: (context) => whileCutOff(context, async (proxy) => proxy.cut()),
  database_forgotten: (context) =>
    whileCutOff(context, async (proxy) => {
      proxy.forget();
      await delay(FREEZE_MS);
    }),
  ...DATABASE_FAULTS,
  lose_accept_answer: (context) => loseReply(context, 'accept'),
  lose_settle_answer: (context) => loseReply(context, 'settle'),
  async clock_jump(context) {
    if (context.clockJumps >= CLOCK_JUMPS_MAX) return;
    context.clockJumps += 1;
    await context.stage.databaseClock.move(HOUR_MS);
  },
  /**
   * Sets the clock back by an hour, and right again. Otherwise suspensions until a time of this clock would last an
   * hour longer.
   */
  async clock_back({ stage, random }) {
    await stage.databaseClock.move(-HOUR_MS);
    await delay(random.between(5_000, 15_000));
    await stage.databaseClock.move(HOUR_MS);
  },
  /** Sets the clock back by some minutes and forward again, as a fail-over to a standby that is behind does. */
  async clock_steps({ stage, random }) {
    for (let step = 0; step < CLOCK_STEPS; step += 1) {
      const minutesMs = random.between(1, 10) * 60_000;
      await stage.databaseClock.move(-minutesMs);
      await delay(random.between(1_000, 5_000));
      await stage.databaseClock.move(minutesMs);
      await delay(random.between(500, 2_000));
    }
  },
  async nodes_clock({ stage, random, log }) {
    const { name } = random.pick(stage.nodes);
    const jump = random.pick(Object.keys(JUMPS));
    stage.hooks.forgiveAge();
    const offsetMs = JUMPS[jump]!();
    stage.clocks.set(name, offsetMs);
    log(`the clock of ${name} is ${jump}`);
    if (!isRefusing(offsetMs)) return;
    // The clock is set right again. Otherwise no node would accept mail in the end.
    await delay(random.between(5_000, 15_000));
    stage.clocks.set(name, 0);
  },
  async suppress({ stage, suppressed, stopped, log }) {
    const address = SUPPRESSED_MEANWHILE[suppressed.length % SUPPRESSED_MEANWHILE.length]!;
    if (suppressed.some((one) => one.address === address)) return;
    await runOnAnyNode(stage, (node) => suppress(node.service, address));
    suppressed.push({ address, sinceMs: Date.now() });
    stopped.push(...(await listWaiting(stage, { address, domain: null })));
    log(`suppressed ${address}`);
  },
  async remove_domain({ stage, load, stopped, log }) {
    const [name, id] = [...stage.leaving].find(([one]) => !load.isRemoved(one)) ?? [];
    if (name === undefined) return;
    load.removing(name);
    await runOnAnyNode(stage, ({ service }) => removeDomain(service, `${id}`, stage.adminKey));
    load.removed(name);
    stopped.push(...(await listWaiting(stage, { address: null, domain: name })));
    log(`removed ${name}`);
  },
  async revoke_key({ stage, load, log }) {
    const old = load.liveKey;
    load.useKey(await runOnAnyNode(stage, (node) => newLiveKey(node.service)));
    await runOnAnyNode(stage, (node) => node.service.cliJson('keys', 'revoke', old.id));
    load.revoked(old);
    log(`revoked the key ${old.id}`);
  },
  /** Starts the attacks. They go on while failpoints are hit, because the attacker waits for nodes that are up. */
  attack: async ({ attacker, log }) => attacker.begin(log),
};

async function removeDomain(service: Service, id: string, key: string): Promise<void> {
  const { status, text } = await service.request('DELETE', `/v1/domains/${id}`, { key });
  // A 404 means that an earlier DELETE succeeded and its response was lost.
  if (status !== 200 && status !== 404) throw new Error(text);
}

/**
 * Lists waiting recipients. It waits for claims that are not committed yet, so no worker has leased these recipients.
 */
const WAITING = `
select queue.email_id as "emailId", recipients.address
  from queue
  join recipients on recipients.email_id = queue.email_id and recipients.position = queue.position
  join emails on emails.id = queue.email_id
  join domains on domains.id = emails.domain_id
 where queue.holder is null and (recipients.address = $1 or domains.name = $2)
   for update of queue`;

async function listWaiting(
  stage: Stage,
  { address, domain }: { address: string | null; domain: string | null },
): Promise<FaultContext['stopped']> {
  const rows: { emailId: string; address: string }[] = await stage.sql(WAITING, [address, domain]);
  const sinceMs = Date.now();
  return rows.map((row) => ({ ...row, sinceMs }));
}

function recoveryEndMs(): number {
  return Date.now() + RECOVERY_MS;
}

function signalDatabase(stage: Stage, signal: NodeJS.Signals): void {
  const pid = stage.databasePid();
  if (pid !== null) stage.nodes[0].signal(pid, signal);
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

async function anyWorker(
  stage: Stage,
  random: RandomSource,
): Promise<[number | undefined, ChaosNode]> {
  const node = random.pick(stage.nodes);
  return [random.shuffled(await node.workerPids())[0], node];
}

/** Injects a fault into the connection between the database and node b or c, which reach it over the network. */
async function whileCutOff(
  { stage, random }: FaultContext,
  injection: (proxy: TcpProxy) => Promise<void>,
): Promise<void> {
  const which = random.pick([0, 1] as const);
  const node = stage.nodes[which + 1]!;
  const disturbance = node.disturbed('cut off from the database', Date.now(), Infinity);
  await injection(stage.proxies[which]);
  disturbance.toMs = recoveryEndMs();
}

/** Cuts the connection at the next such statement: after it was sent, or before its response arrives. */
function loseReply(context: FaultContext, text: string): Promise<void> {
  return whileCutOff(context, async (proxy) => {
    const cutWhen = context.random.pick(['sent', 'answered'] as const);
    await Promise.race([proxy.trap({ text, cutWhen }), delay(10_000)]);
  });
}

/**
 * Runs a command of the command line with the database connection of node b or c. With that of node a, it would start
 * the database.
 */
async function runOnAnyNode<Result>(
  stage: Stage,
  command: (node: ChaosNode) => Promise<Result>,
): Promise<Result> {
  let last: unknown;
  for (let tries = 0; tries < CLI_TRIES; tries += 1) {
    try {
      return await command(stage.nodes[1 + (tries % 2)]!);
    } catch (error) {
      last = error;
      await delay(1_000);
    }
  }
  throw last;
}
