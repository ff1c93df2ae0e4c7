/**
 * Two tenants of one service: an attacker who controls its keys, DNS zone and mail servers, and a victim, whose
 * requests are timed during the attack. The tests of this folder check that one sender cannot delay another: each
 * action of the victim takes less than two seconds.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Browser, OWNER, ownerOf } from '../support/browser.ts';
import { type FakeDns, startFakeDns } from '../support/fake-dns.ts';
import { type FakeMx, startFakeMx } from '../support/fake-mx.ts';
import type { Env } from '../support/letterhaus.ts';
import { type Service, startService } from '../support/service.ts';
import { newTenant, type Tenant } from '../support/tenants.ts';
import { waitFor } from '../support/wait.ts';
import { type Receiver, startReceiver } from '../support/webhook-receiver.ts';

/** Guarantee: a password reset leaves within these milliseconds, under any load of other tenants. */
const PROMISED_MS = 2_000;
/** Multiple of its time before the attack that an action may take on a busy machine. */
const SLOWER_AT_MOST = 4;
const ROUNDS = 6;
const BETWEEN_ROUNDS_MS = 250;
/** Milliseconds after which a waiting tenant counts as failed. */
const GIVEN_UP_MS = 30_000;

const OWN_NAME = 'out.letterhaus.example';
const VICTIM_ADDRESS = '198.51.100.7';

export type Tenants = AsyncDisposable & {
  service: Service;
  dns: FakeDns;
  /** Port of all mail servers. */
  port: number;
  attacker: Tenant;
  victim: Victim;
  /** Creates another project in its own organization. */
  another(name: string): Promise<Tenant>;
};

export async function startTenants(workers: number, env: Env = {}): Promise<Tenants> {
  const dns = await startFakeDns({ [OWN_NAME]: { A: ['127.0.0.1'] } });
  const mx = await startFakeMx({}, { address: '127.0.1.1' });
  const receiver = await startReceiver();
  const service = await startService({
    dns,
    args: ['--workers', String(workers)],
    env: {
      LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1',
      LETTERHAUS_HOSTNAME: OWN_NAME,
      LETTERHAUS_MX_PORT: String(mx.port),
      LETTERHAUS_LIMIT_SENDING: '100000/60',
      LETTERHAUS_LOG: 'warn',
      LETTERHAUS_TRUSTED_PROXIES: '127.0.0.1',
      ...env,
    },
  });
  dns.set('victim-customers.test', 'MX', ['10 mx.victim-customers.test']);
  dns.set('mx.victim-customers.test', 'A', [mx.address]);
  await ownerOf(service);
  const attacker = await newTenant(service, 'attacker');
  const victim = new Victim({ service, mx, receiver, tenant: await newTenant(service, 'victim') });
  await victim.begin();
  return {
    service,
    dns,
    port: mx.port,
    attacker,
    victim,
    another: (name) => newTenant(service, name),
    async [Symbol.asyncDispose]() {
      for (const part of [service, receiver, mx, dns]) await part[Symbol.asyncDispose]();
    },
  };
}

/** Milliseconds that each of the victim's actions took, by kind. */
type Measured = Record<'reset' | 'read' | 'webhook' | 'signIn', number[]>;

type VictimParts = { service: Service; mx: FakeMx; receiver: Receiver; tenant: Tenant };

type ResetOptions = {
  /** Domain of the customers' mailboxes. */
  domain?: string;
  /**
   * Whether the email is scheduled for the next second and timed from then on. A worker claims such an email from the
   * queue.
   */
  isScheduled?: boolean;
  /** Mail server that receives the email. Default: that of victim-customers.test. */
  at?: FakeMx;
};

type ServedOptions = ResetOptions & {
  /** Milliseconds between the beginnings of two rounds. */
  everyMs?: number;
};

export class Victim {
  readonly tenant: Tenant;
  readonly #service: Service;
  readonly #mx: FakeMx;
  readonly #receiver: Receiver;
  /** Device cookie of the browser in which the owner has signed in before. */
  #device: string | null = null;
  #promisedMs = PROMISED_MS;

  constructor({ service, mx, receiver, tenant }: VictimParts) {
    this.tenant = tenant;
    this.#service = service;
    this.#mx = mx;
    this.#receiver = receiver;
  }

  async begin(): Promise<void> {
    const body = { url: this.#receiver.url, events: ['email.delivered'] };
    const response = await this.#service.request('POST', '/v1/webhooks', {
      key: this.tenant.live,
      body,
    });
    assert.equal(response.status, 201, response.text);
    const { ms: resetMs } = await this.#reset({});
    const signInMs = await timed(() => this.#signIn());
    this.#promisedMs = Math.max(PROMISED_MS, SLOWER_AT_MOST * Math.max(resetMs, signInMs));
  }

  /**
   * Does each action some times during the attack. Each must succeed within the guaranteed time.
   * @param options.everyMs more than the default, for an attack on an action that is expensive for the victim, too
   */
  async isServed({ everyMs = BETWEEN_ROUNDS_MS, ...options }: ServedOptions = {}): Promise<void> {
    const measured: Measured = { reset: [], read: [], webhook: [], signIn: [] };
    const rounds = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      if (round > 0) await delay(everyMs);
      rounds.push(this.#round(measured, options));
    }
    // All rounds are awaited, so that none continues into the next test.
    for (const round of await Promise.allSettled(rounds)) {
      if (round.status === 'rejected') throw round.reason;
    }
    const slow = Object.entries(measured).filter(([, times]) => p95(times) > this.#promisedMs);
    const what = `over ${Math.round(this.#promisedMs)} ms: ${show(measured)}`;
    assert.deepEqual(Object.fromEntries(slow), {}, what);
  }

  async #round(measured: Measured, options: ResetOptions): Promise<void> {
    const sent = this.#reset(options).then(async ({ id, ms }) => {
      measured.reset.push(ms);
      measured.webhook.push(await timed(() => this.#notified(id)));
    });
    const read = timed(() => this.#read()).then((ms) => measured.read.push(ms));
    const signedIn = timed(() => this.#signIn()).then((ms) => measured.signIn.push(ms));
    for (const action of await Promise.allSettled([sent, read, signedIn])) {
      if (action.status === 'rejected') throw action.reason;
    }
  }

  /** @returns the id of the email, and the milliseconds until its message arrived */
  async #reset({
    domain,
    isScheduled,
    at = this.#mx,
  }: ResetOptions): Promise<{ id: string; ms: number }> {
    const to = `${randomUUID()}@${domain ?? 'victim-customers.test'}`;
    const dueAtMs = Date.now() + (isScheduled === true ? 1_000 : 0);
    const draft = {
      from: this.tenant.from,
      to,
      subject: 'Your new password',
      html: '<p>Choose a new password</p>',
      ...(isScheduled === true && { scheduled_at: new Date(dueAtMs).toISOString() }),
    };
    const id = await this.#service.send(draft, { key: this.tenant.live });
    await waitFor(() => at.messages.some(({ recipients }) => recipients.includes(to)), {
      what: `the password reset to ${to}`,
      timeoutMs: GIVEN_UP_MS,
      everyMs: 20,
    });
    return { id, ms: Date.now() - dueAtMs };
  }

  async #notified(id: string): Promise<void> {
    await waitFor(() => this.#receiver.received.some(({ event }) => event.data.email_id === id), {
      what: 'the webhook of a delivered password reset',
      timeoutMs: GIVEN_UP_MS,
      everyMs: 20,
    });
  }

  async #read(): Promise<void> {
    const response = await this.#service.request('GET', '/v1/emails?limit=20', {
      key: this.tenant.live,
    });
    assert.equal(response.status, 200, response.text);
  }

  async #signIn(): Promise<void> {
    const browser = new Browser(this.#service, { 'x-forwarded-for': VICTIM_ADDRESS });
    browser.device = this.#device;
    const response = await browser.signIn(OWNER);
    assert.equal(response.status, 200, response.text);
    this.#device = browser.device;
  }
}

async function timed(action: () => Promise<void>): Promise<number> {
  const startMs = performance.now();
  await action();
  return performance.now() - startMs;
}

function p95(times: readonly number[]): number {
  const sorted = times.toSorted((one, other) => one - other);
  return sorted[Math.ceil(0.95 * sorted.length) - 1] ?? Infinity;
}

function show(measured: Measured): string {
  return Object.entries(measured)
    .map(([kind, times]) => `${kind} ${times.map(Math.round).join(' ')}`)
    .join('; ');
}

/** Repeats an action of the attacker in several connections until it is disposed. */
export function keepDoing(action: () => Promise<unknown>, connections: number): AsyncDisposable {
  const over = new AbortController();
  const loop = async (): Promise<void> => {
    // Refusals and failures of the attacker are ignored, because only the victim's requests count.
    while (!over.signal.aborted) await action().catch(() => {});
  };
  const loops = Array.from({ length: connections }, loop);
  return {
    async [Symbol.asyncDispose]() {
      over.abort();
      await Promise.all(loops);
    },
  };
}
