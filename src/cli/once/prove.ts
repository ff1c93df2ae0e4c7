/** The steps of `start --once`, in the order of an email's path. Each throws when it fails. */
import { setTimeout as pause } from 'node:timers/promises';
import { type Cli, isFailure, usageFailure } from '../command.ts';
import { checkDkim } from './check-dkim.ts';
import type { ReceivedMail, Receiver, Sink, Zone, ZoneRecord } from './internet.ts';
import { withStore } from '../store.ts';
import { createKey } from '../../accounts/keys/key-store.ts';
import { chooseProject } from '../../accounts/projects/project-choice-store.ts';

/** Names of the simulated internet. `.test` is reserved for testing (RFC 6761). */
const SENDER = 'once.test';
const RECIPIENT = 'receiver.test';
export const RECIPIENT_MX = 'mx.receiver.test';
const POLL_MS = 10;

export type Internet = { zone: Zone; sink: Sink; receiver: Receiver };

export type StepRunner = <Result>(
  name: string,
  work: () => Promise<{ detail: string; result: Result }>,
) => Promise<Result>;

export async function prove(parts: {
  step: StepRunner;
  internet: Internet;
  /** Has the environment of the temporary service. */
  cli: Cli;
  serviceUrl: Promise<string>;
  signal: AbortSignal;
}): Promise<void> {
  const { step, internet, cli, serviceUrl, signal } = parts;
  const { zone, sink, receiver } = internet;
  const url = await step('started', () => waitForService(serviceUrl));
  const key = await step('key', () => createLiveKey(cli));
  const client = createClient(url, key, signal);
  await step('domain', () => verifyDomain(client, zone));
  await step('listening', () => registerWebhook(client, receiver));
  const emailId = await step('accepted', () => sendEmail(client));
  const mail = await step('received', () => waitForMail(sink));
  await step('signed', () => checkSignatures(mail, zone));
  await step('delivered', () => waitForDelivered(client, emailId, signal));
  await step('webhook', () => waitForWebhook(receiver));
}

async function waitForService(serviceUrl: Promise<string>) {
  const url = await serviceUrl;
  return { detail: `a service of its own at ${url}, in a temporary data directory`, result: url };
}

async function createLiveKey(cli: Cli) {
  let text = '';
  const outcome = await withStore(cli, async ({ db }) => {
    const project = await chooseProject(db, undefined);
    if (typeof project === 'string') return usageFailure(project);
    const scope = { projectId: project.id, environment: 'live' } as const;
    const rights = { permission: 'full_access', domain: null, expiresAt: null } as const;
    text = (await createKey(db, scope, { name: 'start --once', ...rights })).text;
    return { data: null, text: '' };
  });
  if (isFailure(outcome)) throw new Error(outcome.failed);
  return { detail: 'a live key, whose mail is delivered', result: text };
}

async function verifyDomain(client: Client, zone: Zone) {
  zone.add(
    { type: 'MX', name: RECIPIENT, priority: 10, value: RECIPIENT_MX },
    { type: 'A', name: RECIPIENT_MX, value: '127.0.0.1' },
  );
  const added = await expectStatus(201, client('POST', '/v1/domains', { name: SENDER }));
  const records = added['records'] as ZoneRecord[];
  zone.add(...records);
  const path = `/v1/domains/${String(added['id'])}/verify`;
  const { status } = await expectStatus(200, client('POST', path, {}));
  if (status !== 'verified') throw new Error(`the domain is ${String(status)}`);
  return { detail: `${SENDER} verified by ${records.length} DNS records`, result: undefined };
}

async function registerWebhook(client: Client, receiver: Receiver) {
  const events = ['email.delivered'];
  const body = await expectStatus(
    201,
    client('POST', '/v1/webhooks', { url: receiver.url, events }),
  );
  receiver.secret = String(body['signing_secret']);
  return { detail: `a webhook for email.delivered at ${receiver.url}`, result: undefined };
}

async function sendEmail(client: Client) {
  const email = {
    from: `Letterhaus <hello@${SENDER}>`,
    to: `you@${RECIPIENT}`,
    subject: 'It works',
    html: '<p>Accepted, signed, delivered, notified.</p>',
  };
  const { id } = await expectStatus(202, client('POST', '/v1/emails', email));
  return { detail: `202, email ${String(id)}`, result: String(id) };
}

async function waitForMail(sink: Sink) {
  const mail = await sink.received;
  const to = mail.recipients.join(', ');
  return {
    detail: `${RECIPIENT_MX} received ${mail.content.length} bytes for ${to}`,
    result: mail,
  };
}

async function checkSignatures(mail: ReceivedMail, zone: Zone) {
  const results = checkDkim(mail.content, (name) => zone.txt(name));
  const good = results.filter(({ domain, ok }) => ok && domain === SENDER);
  if (good.length === 0 || good.length < results.length) {
    throw new Error('a DKIM signature of the message is invalid');
  }
  const algorithms = good.map(({ algorithm }) => algorithm).join(' and ');
  return { detail: `DKIM of ${SENDER} is valid (${algorithms})`, result: undefined };
}

async function waitForDelivered(client: Client, id: string, signal: AbortSignal) {
  for (;;) {
    const { status } = await expectStatus(200, client('GET', `/v1/emails/${id}`));
    if (status === 'delivered') return { detail: 'the email has this status', result: undefined };
    await pause(POLL_MS, undefined, { signal });
  }
}

async function waitForWebhook(receiver: Receiver) {
  const { type, signed } = await receiver.eventOf('email.delivered');
  if (!signed) throw new Error('the signature of the webhook is invalid');
  return { detail: `${type} arrived, its signature is valid`, result: undefined };
}

async function expectStatus(
  expected: number,
  call: ReturnType<Client>,
): Promise<Record<string, unknown>> {
  const { status, body } = await call;
  if (status === expected) return body;
  throw new Error(`the API answered ${status}: ${JSON.stringify(body)}`);
}

type Client = (method: string, path: string, body?: object) => Promise<ClientResponse>;
/** `body` as the API sent it; its fields are checked where they are read. */
type ClientResponse = { status: number; body: Record<string, unknown> };

function createClient(url: string, key: string, signal: AbortSignal): Client {
  return async (method, path, body) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const content = body === undefined ? {} : { body: JSON.stringify(body) };
    const response = await fetch(new URL(path, url), { method, headers, signal, ...content });
    return { status: response.status, body: (await response.json()) as ClientResponse['body'] };
  };
}
