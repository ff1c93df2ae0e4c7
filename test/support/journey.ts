/**
 * The scene of a journey: a service that delivers the live mail of the verified domain acme.example, its DNS, mail
 * servers that a test puts into that DNS, and a webhook receiver for all events. All on loopback.
 *
 *   const journey = await startJourney();
 *   after(() => journey[Symbol.asyncDispose]());
 *
 *   const mx = await journey.mailServer('greylisting.test', { greylist: 1 });
 *   const id = await journey.send({ to: 'jo@greylisting.test' });
 *
 * The tests of a file share one service. So each test uses its own recipient domains, and leaves no waiting mail.
 */
import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import { startFakeDns, type FakeDns } from './fake-dns.ts';
import { startFakeMx, type FakeMx, type MxBehaviour } from './fake-mx.ts';
import type { Env } from './letterhaus.ts';
import { startService, type ApiResponse, type Service } from './service.ts';
import { waitFor } from './wait.ts';
import { startReceiver, verified, type Received, type Receiver } from './webhook-receiver.ts';

/** The name of the service in EHLO. */
export const OWN_NAME = 'out.letterhaus.example';

/** For NODE_EXTRA_CA_CERTS: the service then trusts the authority of `trusted.pem`. */
export const CA_FILE = fileURLToPath(new URL('certs/ca.pem', import.meta.url));

type Body = ApiResponse['body'];

/** `name` is the host in the DNS. test/support/certs/trusted.pem is valid for it. */
export type MailServer = FakeMx & { name: string };

/** @param options.environment the environment of the journey's key; test mail is sent from acme.test */
export async function startJourney(
  env: Env = {},
  { environment = 'live', args = [] }: { environment?: 'live' | 'test'; args?: string[] } = {},
): Promise<Journey> {
  // Started parts end when a later one fails to start. Otherwise the test file would never end.
  await using parts = new AsyncDisposableStack();
  const dns = parts.use(await startFakeDns({ [OWN_NAME]: { A: ['127.0.0.1'] } }));
  // Reserves the port that all mail servers of this journey share.
  const holder = parts.use(await startFakeMx({}, { address: '127.0.1.1' }));
  const present = {
    LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1',
    LETTERHAUS_MX_PORT: String(holder.port),
    LETTERHAUS_HOSTNAME: OWN_NAME,
    LETTERHAUS_LIMIT_SENDING: '100000/60',
    LETTERHAUS_LIMIT_VERIFICATION: '1000/60',
  };
  const service = parts.use(await startService({ dns, args, env: { ...present, ...env } }));
  const receiver = parts.use(await startReceiver());
  const journey = new Journey({ service, dns, holder, receiver, environment });
  await journey.begin();
  parts.move();
  return journey;
}

export class Journey implements AsyncDisposable {
  readonly service: Service;
  readonly dns: FakeDns;
  readonly port: number;
  readonly #servers: FakeMx[];
  readonly #receiver: Receiver;
  readonly #isLive: boolean;
  #webhookSecret = '';
  /** Number of mail servers so far; the first one reserves the port. */
  #count = 1;
  readonly #mx = new Map<string, string[]>();

  constructor(peers: {
    service: Service;
    dns: FakeDns;
    holder: FakeMx;
    receiver: Receiver;
    environment: 'live' | 'test';
  }) {
    this.service = peers.service;
    this.dns = peers.dns;
    this.port = peers.holder.port;
    this.#servers = [peers.holder];
    this.#receiver = peers.receiver;
    this.#isLive = peers.environment === 'live';
  }

  async begin(): Promise<void> {
    if (this.#isLive) await this.service.addLiveDomain('acme.example');
    const { body } = await this.request('POST', '/v1/webhooks', { url: this.#receiver.url });
    this.#webhookSecret = body.signing_secret;
  }

  /** Starts a mail server as an MX of the domain. Equal ends of host names make one provider. */
  async mailServer(
    domain: string,
    behaviour: MxBehaviour = {},
    { preference = 10, provider = 'mx.test' } = {},
  ): Promise<MailServer> {
    const number = ++this.#count;
    const address = `127.0.1.${number}`;
    const mx = await startFakeMx(behaviour, { address, port: this.port });
    this.#servers.push(mx);
    const name = `host${number}.${provider}`;
    this.dns.set(name, 'A', [address]);
    const records = [...(this.#mx.get(domain) ?? []), `${preference} ${name}`];
    this.#mx.set(domain, records);
    this.dns.set(domain, 'MX', records);
    return Object.defineProperty(mx as MailServer, 'name', { value: name });
  }

  /** Returns a key with full access to the environment of the journey. */
  async key(): Promise<string> {
    return this.#isLive ? this.service.liveKey() : this.service.testKey;
  }

  /** Sends an email that must be accepted. */
  async send(draft: object): Promise<string> {
    const from = `Acme <hello@acme.${this.#isLive ? 'example' : 'test'}>`;
    return this.service.send({ from, ...draft }, { key: await this.key() });
  }

  async request(method: string, path: string, body?: unknown): Promise<ApiResponse> {
    return this.service.request(method, path, { key: await this.key(), body });
  }

  async email(id: string): Promise<Body> {
    return this.service.email(id, await this.key());
  }

  /**
   * Returns the timeline, oldest first. Asserts that it is numbered without gaps, and that each event arrived as
   * exactly one webhook with a valid signature.
   */
  async timeline(id: string): Promise<Body[]> {
    const { body } = await this.request('GET', `/v1/emails/${id}/events`);
    const events: Body[] = body.data;
    const webhooks = () =>
      this.#receiver.received.filter(({ event }) => event.data.email_id === id);
    const what = `${events.length} webhooks about the email`;
    await waitFor(() => webhooks().length >= events.length, { what });
    const received = new Map(webhooks().map((webhook) => [webhook.id, webhook]));
    assert.equal(webhooks().length, received.size);
    const ids = events.map((event): string => event.id);
    assert.deepEqual([...received.keys()].toSorted(), ids.toSorted());
    for (const [index, event] of events.entries()) {
      const payload = { type: event.type, created_at: event.created_at, data: event.data };
      assert.deepEqual(verified(this.#webhookSecret, received.get(event.id)!), payload);
      assert.equal(event.number, index + 1);
    }
    return events;
  }

  /** Returns the timeline with one word for each event. */
  async story(id: string): Promise<string[]> {
    return (await this.timeline(id)).map(({ type }) => type.replace('email.', ''));
  }

  /** Waits until all recipients of the email have ended. @returns the email */
  ended(id: string): Promise<Body> {
    return this.#once(id, 'to end', ({ completed_at }) => completed_at !== null);
  }

  /** Waits until the emails are delivered to all recipients. The error names the open ones. */
  async allDelivered(ids: readonly string[], timeoutMs: number): Promise<void> {
    const open = () =>
      this.service.sql(
        `select email_id, recipients.status, recipients.attempts, recipients.reason,
                queue.due_at - app_now() as "in"
           from recipients left join queue using (project_id, email_id, position)
          where email_id = any($1) and recipients.status <> 'delivered'`,
        [ids],
      );
    const what = 'everything to be delivered';
    await waitFor(async () => (await open()).length === 0, { what, timeoutMs }).catch(
      async (error: Error) => {
        throw new Error(`${error.message}: ${JSON.stringify(await open())}`);
      },
    );
  }

  /** Waits until the first recipient has so many attempts. @returns the email */
  attempted(id: string, attempts = 1): Promise<Body> {
    return this.#once(id, `to have ${attempts} attempts`, ({ recipients }) => {
      return recipients[0].attempts >= attempts && recipients[0].status !== 'sending';
    });
  }

  /** Waits until each recipient has an attempt. @returns the email */
  allAttempted(id: string): Promise<Body> {
    return this.#once(id, 'to be attempted', ({ recipients }) => {
      return recipients.every((one: Body) => one.attempts > 0 && one.status !== 'sending');
    });
  }

  /** Waits for the first webhook that matches. */
  async webhook(isWanted: (event: Received['event']) => boolean): Promise<Received['event']> {
    const find = () => this.#receiver.received.find(({ event }) => isWanted(event));
    return (await waitFor(find, { what: 'the webhook' })).event;
  }

  /** Advances the clock until the email is due, and waits for the next attempt. */
  async retry(id: string): Promise<Body> {
    const { recipients } = await this.email(id);
    await this.pass({ hours: 5 });
    return this.attempted(id, recipients[0].attempts + 1);
  }

  pass(time: { hours?: number; minutes?: number; seconds?: number }): Promise<void> {
    return this.service.clock.advance(time);
  }

  async #once(id: string, what: string, condition: (email: Body) => boolean): Promise<Body> {
    let email: Body;
    const look = async () => {
      email = await this.email(id);
      return condition(email) && email;
    };
    return waitFor(look, { what: `the email ${what}` }).catch((error) => {
      const { status, recipients } = email;
      const state = JSON.stringify({ status, recipients }, null, 1);
      const logs = this.service.logs
        .split('\n')
        .filter((line) => !line.includes('"msg":"request"'));
      throw new Error(`${error.message}\n${state}\n${logs.join('\n').slice(-4_000)}`);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.service[Symbol.asyncDispose]();
    await this.#receiver[Symbol.asyncDispose]();
    for (const server of this.#servers) await server[Symbol.asyncDispose]();
    await this.dns[Symbol.asyncDispose]();
  }
}
