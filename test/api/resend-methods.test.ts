/**
 * The root mount: every method of the official client of Resend, so that a new version of the client shows
 * what is missing. Each either succeeds, with a response of the type that the client declares, or fails with a
 * 404 that says what this service does not offer; the other tests of the root mount have the details.
 */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import type { z } from 'zod';
import { UNKNOWN_ID } from '../support/api.ts';
import { failed, resendClient, succeeded } from '../support/resend.ts';
import { ANSWERS, EVENTS } from '../support/resend-shapes.ts';
import { sharedService } from '../support/shared-service.ts';
import { waitFor } from '../support/wait.ts';
import { type Received, startReceiver } from '../support/webhook-receiver.ts';

const service = await sharedService();
const receiver = await startReceiver();
after(() => receiver[Symbol.asyncDispose]());

const resend = resendClient(service);
const EMAIL = { from: 'a@acme.test', to: 'delivered@resend.dev', subject: 'Hi', text: 'Hi' };
const FILE = { filename: 'a.txt', content: Buffer.from('a file') };
const LATER = { ...EMAIL, scheduledAt: 'in 1 hour', attachments: [FILE] };

type Result = Parameters<typeof succeeded<unknown>>[0];
type Method = { path: string; call: (...args: unknown[]) => Promise<Result> };

/** Helpers of the client, which no application calls. */
const INTERNAL =
  /^(logError|fetchRequest|post|get|put|patch|delete)$|\.(performCreate|build\w+|appendField|forward(Passthrough|Wrapped)|downloadRaw)$/;

/** All methods of the client, like `domains.claims.create`. */
function methodsOf(resource: object, at = ''): Method[] {
  const names = Object.getOwnPropertyNames(Object.getPrototypeOf(resource));
  const own = names.flatMap((name) => {
    const value: unknown = Reflect.get(resource, name);
    if (name === 'constructor' || typeof value !== 'function') return [];
    return [{ path: at + name, call: value.bind(resource) as Method['call'] }];
  });
  const inner = Object.entries(resource).filter(
    ([name, value]) =>
      name !== 'resend' &&
      typeof value === 'object' &&
      value !== null &&
      !(value instanceof Headers),
  );
  return [...own, ...inner.flatMap(([name, value]) => methodsOf(value, `${at}${name}.`))].filter(
    ({ path }) => !INTERNAL.test(path),
  );
}

const known = {
  email: succeeded(await resend.emails.send(LATER)).id,
  domain: succeeded(await resend.domains.create({ name: 'methods.test' })).id,
  key: succeeded(await resend.apiKeys.create({ name: 'x' })).id,
  webhook: '',
  event: '',
  template: succeeded(await resend.templates.create({ name: 'x', subject: 'x', html: '<p>x</p>' }))
    .id,
  log: '',
  attachment: '',
};

await waitFor(
  async () => {
    known.log = succeeded(await resend.logs.list()).data[0]?.id ?? '';
    return known.log !== '';
  },
  { what: 'a request to be logged' },
);

/** In an order in which each succeeds: what is removed is removed last. */
const SERVED: Record<string, () => PromiseLike<Result>> = {
  'emails.send': () => resend.emails.send(EMAIL),
  'emails.create': () => resend.emails.create(EMAIL),
  'emails.get': () => resend.emails.get(known.email),
  'emails.list': () => resend.emails.list(),
  'emails.update': () => resend.emails.update({ id: known.email, scheduledAt: 'in 2 hours' }),
  'emails.share': () => resend.emails.share(known.email),
  'emails.attachments.list': async () => {
    const list = await resend.emails.attachments.list({ emailId: known.email });
    known.attachment = succeeded(list).data[0]!.id;
    return list;
  },
  'emails.attachments.get': () =>
    resend.emails.attachments.get({ emailId: known.email, id: known.attachment }),
  'emails.metrics': () => resend.emails.metrics(),
  'emails.cancel': () => resend.emails.cancel(known.email),
  'batch.send': () => resend.batch.send([EMAIL, EMAIL]),
  'batch.create': () => resend.batch.create([EMAIL]),
  'domains.create': () => resend.domains.create({ name: 'other.test' }),
  'domains.list': () => resend.domains.list(),
  'domains.get': () => resend.domains.get(known.domain),
  'domains.update': () => resend.domains.update({ id: known.domain, tls: 'enforced' }),
  'domains.verify': () => resend.domains.verify(known.domain),
  'domains.remove': () => resend.domains.remove(known.domain),
  'apiKeys.create': () => resend.apiKeys.create({ name: 'y' }),
  'apiKeys.list': () => resend.apiKeys.list(),
  'apiKeys.update': () => resend.apiKeys.update(known.key, { name: 'z' }),
  'apiKeys.remove': () => resend.apiKeys.remove(known.key),
  'webhooks.create': async () => {
    const created = await resend.webhooks.create({
      endpoint: receiver.url,
      events: ['email.sent'],
    });
    known.webhook = succeeded(created).id;
    return created;
  },
  'webhooks.list': () => resend.webhooks.list(),
  'webhooks.get': () => resend.webhooks.get(known.webhook),
  'webhooks.verify': async () => {
    const { signing_secret: webhookSecret } = succeeded(await resend.webhooks.get(known.webhook));
    succeeded(await resend.emails.send(EMAIL));
    const [{ body, headers }] = (await receiver.waitForCount(1)) as [Received];
    const signed = {
      id: headers['svix-id']!,
      timestamp: headers['svix-timestamp']!,
      signature: headers['svix-signature']!,
    };
    const data = resend.webhooks.verify({ payload: body, headers: signed, webhookSecret });
    return { data, error: null };
  },
  'webhooks.events.list': async () => {
    const list = await resend.webhooks.events.list({ webhookId: known.webhook });
    known.event = succeeded(list).data[0]!.id;
    return list;
  },
  'webhooks.events.get': () => resend.webhooks.events.get(ofWebhook()),
  'webhooks.events.attempts.list': () => resend.webhooks.events.attempts.list(ofWebhook()),
  'webhooks.events.replay': () => resend.webhooks.events.replay(ofWebhook()),
  'webhooks.update': () => resend.webhooks.update(known.webhook, { status: 'disabled' }),
  'webhooks.rotateSigningSecret': () => resend.webhooks.rotateSigningSecret(known.webhook),
  'webhooks.remove': () => resend.webhooks.remove(known.webhook),
  'suppressions.add': () => resend.suppressions.add({ email: 'a@x.test' }),
  'suppressions.list': () => resend.suppressions.list(),
  'suppressions.get': () => resend.suppressions.get('a@x.test'),
  'suppressions.remove': () => resend.suppressions.remove('a@x.test'),
  'suppressions.batch.add': () => resend.suppressions.batch.add({ emails: ['b@x.test'] }),
  'suppressions.batch.remove': () => resend.suppressions.batch.remove({ emails: ['b@x.test'] }),
  'templates.create': () => resend.templates.create({ name: 'y', subject: 'y', html: '<p>y</p>' }),
  'templates.list': () => resend.templates.list(),
  'templates.get': () => resend.templates.get(known.template),
  'templates.update': () => resend.templates.update(known.template, { name: 'z' }),
  'templates.publish': () => resend.templates.publish(known.template),
  'templates.duplicate': () => resend.templates.duplicate(known.template),
  'templates.remove': () => resend.templates.remove(known.template),
  'logs.list': () => resend.logs.list(),
  'logs.get': () => resend.logs.get(known.log),
  'usage.get': () => resend.usage.get(),
};

const ofWebhook = () => ({ webhookId: known.webhook, eventId: known.event });

/** Second names of a method. */
const ALIASES: Record<string, string> = {
  'emails.create': 'emails.send',
  'batch.create': 'batch.send',
};

for (const [path, call] of Object.entries(SERVED)) {
  test(`${path} succeeds, and responds with what the client declares`, async () => {
    const response = succeeded(await call());
    const shapes: Record<string, z.ZodType> = ANSWERS;
    const shape = shapes[ALIASES[path] ?? path];
    assert.ok(shape, 'a response that these tests do not know');
    assert.deepEqual(problemsIn(shape, response), []);
  });
}

function problemsIn(shape: z.ZodType, value: unknown): string[] {
  const { error } = shape.safeParse(value);
  return (error?.issues ?? []).map(({ path, message }) => `${path.join('.')}: ${message}`);
}

test('every event has the type that the client declares', async () => {
  await using all = await startReceiver();
  const types = Object.keys(EVENTS) as (keyof typeof EVENTS)[];
  succeeded(await resend.webhooks.create({ endpoint: all.url, events: types }));
  for (const name of ['delivered', 'bounced', 'complained', 'suppressed']) {
    succeeded(await resend.emails.send({ ...EMAIL, to: `${name}@resend.dev` }));
  }
  succeeded(await resend.emails.send(LATER));
  succeeded(await resend.emails.send({ ...EMAIL, to: 'deferred@simulator.test' }));
  const { id } = succeeded(await resend.domains.create({ name: 'shapes.test' }));
  succeeded(await resend.domains.verify(id));
  succeeded(await resend.domains.remove(id));
  succeeded(await resend.suppressions.add({ email: 'shape@x.test' }));
  succeeded(await resend.suppressions.remove('shape@x.test'));
  // The others need a recipient who opens or clicks, or days; compat/resend/wire/webhook-payload.test.ts tests them.
  const caused = types.filter((type) => !/\.(opened|clicked|failed)$/.test(type));
  const bodies = () => all.received.map(({ body }) => JSON.parse(body) as { type: string });
  await waitFor(async () => caused.every((type) => bodies().some((body) => body.type === type)), {
    what: `the events ${caused.join(', ')}`,
  });
  for (const body of bodies()) {
    const shape = EVENTS[body.type as keyof typeof EVENTS];
    assert.deepEqual([body.type, problemsIn(shape, body)], [body.type, []]);
  }
});

/** By the beginning of its path, what the failure says of a method. */
const NOT_OFFERED: Record<string, string> = {
  audiences: 'segments',
  automations: 'automations',
  broadcasts: 'broadcasts',
  contactProperties: 'contact properties',
  contacts: 'contacts',
  'domains.claims': 'claims of domains',
  'emails.receiving': 'received mail',
  events: 'events',
  inboxes: 'inboxes',
  oauthGrants: 'oauth',
  segments: 'segments',
  topics: 'topics',
};

/** Stands for every argument of a method: an id, or an object with ids, addresses and contents. */
const ANYTHING = {
  ...Object.fromEntries(
    'id emailId inboxId threadId draftId labelId contactId automationId runId identifier'
      .split(' ')
      .map((name) => [name, UNKNOWN_ID]),
  ),
  name: 'x.test',
  file: new Blob(['a@x.test']),
  text: 'x',
  to: 'a@x.test',
  from: 'a@acme.test',
  labels: ['x'],
  topics: [],
  steps: [],
  connections: [],
  toString: () => UNKNOWN_ID,
};

const methods = methodsOf(resend);

for (const { path, call } of methods.filter((method) => !(method.path in SERVED))) {
  test(`${path} fails with a 404 that says that this is not offered`, async () => {
    const [, what] =
      Object.entries(NOT_OFFERED).find(([prefix]) => path.startsWith(`${prefix}.`)) ?? [];
    assert.ok(what, 'a method that these tests do not know');
    failed(await call(ANYTHING, ANYTHING), 404, 'not_found', new RegExp(`not offer ${what}`));
  });
}

test('every method that is served is one of the client', () => {
  const paths = methods.map(({ path }) => path);
  assert.ok(paths.length > 100, 'the methods of the client are found');
  assert.deepEqual(
    Object.keys(SERVED).filter((path) => !paths.includes(path)),
    [],
  );
});
