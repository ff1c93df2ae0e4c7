/** Three database machines that Patroni and etcd make into one cluster, as docs/several-machines.md describes it. */
import { execFileSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { chmodSync, mkdirSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import pg from 'pg';
import { waitFor } from '../support/wait.ts';
import { type Account, DatabaseMachine } from './machine.ts';
import type { Programs } from './programs.ts';

/** A busy machine takes minutes for what takes seconds. */
const WITHIN_MS = 240_000;
const REST_WITHIN_MS = 3_000;
const PORTS = { patroni: 8008, postgres: 5432 };
const OWNER = { user: 'letterhaus', password: 'change-me-letterhaus', database: 'letterhaus' };

type Member = { name: string; role: string; state: string; timeline?: number };

export type Cluster = AsyncDisposable & {
  machines: readonly DatabaseMachine[];
  /** DATABASE_URL with all machines, db1 first. */
  url: string;
  network: string;
  account: Account | null;
  leader(): Promise<DatabaseMachine>;
  /** Waits until a machine other than this one is the leader. */
  untilPromoted(other: DatabaseMachine): Promise<DatabaseMachine>;
  /** Waits until all machines are there, and a standby is synchronous. */
  untilHealthy(): Promise<void>;
  /** Hands over in order, to any standby that has everything. */
  switchOver(): Promise<void>;
};

/** @returns null: a program of this machine listens on all addresses at one of the ports */
export async function startCluster(folder: string, programs: Programs): Promise<Cluster | null> {
  const network = `127.${randomInt(10, 250)}.${randomInt(1, 250)}`;
  const isFree = await Promise.all(
    [2379, 2380, 5432, 6432, 8008].map((port) => canListen(port, `${network}.11`)),
  );
  if (isFree.includes(false)) return null;
  const account = process.geteuid?.() === 0 ? nobody() : null;
  chmodSync(folder, 0o711);
  const machines = [1, 2, 3].map((number) => {
    const at = join(folder, `db${number}`);
    mkdirSync(at);
    return new DatabaseMachine({ number, network, folder: at, programs, account });
  });
  const hosts = machines.map(({ address }) => `${address}:${PORTS.postgres}`).join(',');
  const cluster = new RunningCluster(machines, {
    url: `postgres://${OWNER.user}:${OWNER.password}@${hosts}/${OWNER.database}`,
    network,
    account,
  });
  for (const machine of machines) machine.start();
  endWithThisProcess(machines);
  try {
    await cluster.untilHealthy();
    await cluster.createDatabase();
  } catch (error) {
    for (const machine of machines) process.stderr.write(`${machine.name}: ${machine.log()}\n`);
    await cluster[Symbol.asyncDispose]();
    throw error;
  }
  return cluster;
}

/** `timeout` and Ctrl-C end the check by a signal. */
function endWithThisProcess(machines: readonly DatabaseMachine[]): void {
  // Before the folder of their data is removed.
  process.prependOnceListener('exit', () => {
    for (const machine of machines) machine.killNow();
  });
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.once(name, () => process.exit(1));
}

class RunningCluster implements Cluster {
  readonly machines: readonly DatabaseMachine[];
  readonly url: string;
  readonly network: string;
  readonly account: Account | null;

  constructor(
    machines: readonly DatabaseMachine[],
    { url, network, account }: Pick<Cluster, 'url' | 'network' | 'account'>,
  ) {
    this.machines = machines;
    this.url = url;
    this.network = network;
    this.account = account;
  }

  async leader(): Promise<DatabaseMachine> {
    return waitFor(() => this.#findLeader(), { what: 'a leader', timeoutMs: WITHIN_MS });
  }

  async untilPromoted(other: DatabaseMachine): Promise<DatabaseMachine> {
    const promoted = async (): Promise<DatabaseMachine | null> => {
      const leader = await this.#findLeader(other);
      return leader === other ? null : leader;
    };
    return waitFor(promoted, { what: `a leader other than ${other.name}`, timeoutMs: WITHIN_MS });
  }

  async untilHealthy(): Promise<void> {
    const isHealthy = async (): Promise<boolean> => {
      const views = await Promise.all(this.machines.map((machine) => membersSeenBy(machine)));
      return views.every(
        (members) =>
          members.length === this.machines.length &&
          members.every(({ state }) => state === 'running' || state === 'streaming') &&
          new Set(members.map(({ timeline }) => timeline)).size === 1 &&
          members.filter(({ role }) => role === 'leader').length === 1 &&
          members.some(({ role }) => role === 'sync_standby'),
      );
    };
    await waitFor(isHealthy, { what: 'a healthy cluster', timeoutMs: WITHIN_MS });
  }

  async switchOver(): Promise<void> {
    const { name, address } = await this.leader();
    const response = await fetch(`http://${address}:${PORTS.patroni}/switchover`, {
      method: 'POST',
      body: JSON.stringify({ leader: name }),
    });
    if (!response.ok) throw new Error(`switchover: ${response.status} ${await response.text()}`);
  }

  /** The commands of docs/several-machines.md. */
  async createDatabase(): Promise<void> {
    const { address, superuser } = await this.leader();
    const client = new pg.Client({
      host: address,
      port: PORTS.postgres,
      ...superuser,
      database: 'postgres',
    });
    await client.connect();
    try {
      await client.query(`create role ${OWNER.user} login createrole password '${OWNER.password}'`);
      await client.query(`grant pg_monitor to ${OWNER.user}`);
      await client.query(`create database ${OWNER.database} owner ${OWNER.user}`);
    } finally {
      await client.end();
    }
  }

  /** @param except is not asked, because it may not know that another one has been promoted */
  async #findLeader(except?: DatabaseMachine): Promise<DatabaseMachine | null> {
    const asked = this.machines.filter((machine) => machine !== except);
    const views = await Promise.all(asked.map((machine) => membersSeenBy(machine)));
    const names = views
      .flat()
      .filter(({ role, state }) => role === 'leader' && state === 'running');
    return this.machines.find(({ name }) => names[0]?.name === name) ?? null;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.machines.map((machine) => machine.kill9()));
  }
}

/** Returns the members by Patroni's REST API; none when it does not answer. */
async function membersSeenBy({ address }: DatabaseMachine): Promise<Member[]> {
  try {
    const signal = AbortSignal.timeout(REST_WITHIN_MS);
    const response = await fetch(`http://${address}:${PORTS.patroni}/cluster`, { signal });
    return ((await response.json()) as { members: Member[] }).members;
  } catch {
    return [];
  }
}

function canListen(port: number, host: string): Promise<boolean> {
  const server = createServer().listen(port, host);
  return new Promise((resolve) => {
    server.once('error', () => resolve(false));
    server.once('listening', () => server.close(() => resolve(true)));
  });
}

function nobody(): Account {
  const id = (flag: string) => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }));
  return { uid: id('-u'), gid: id('-g') };
}
