/** The SDK on the runtime of Cloudflare Workers, which refuses some calls that Node permits, against the service. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { stripTypeScriptTypes } from 'node:module';
import { join } from 'node:path';
import { Webhook } from 'standardwebhooks';
import { sharedService } from '../support/shared-service.ts';
import { startReceiver } from '../support/webhook-receiver.ts';
import { startWorkerd } from '../support/workerd.ts';

const SDK = join(import.meta.dirname, '../../sdk/src');

/** Each path uses the client once and responds with its result or error. */
const WORKER = `
import { Letterhaus, verifyWebhook } from './index.ts';

const EMAIL = {
  from: 'Acme <hello@acme.test>',
  to: 'delivered@simulator.test',
  subject: 'From a Worker',
  text: 'Hello',
};

const USES = {
  async send(letterhaus, { bytes }) {
    const attachments = [
      { filename: 'bytes', content: bytes },
      { filename: 'buffer', content: bytes.buffer },
      { content: new File([bytes], 'file.png', { type: 'image/png' }) },
    ];
    const { id } = await letterhaus.emails.send({ ...EMAIL, attachments });
    const { attachments: arrived } = await letterhaus.emails.inspect(id);
    const { text } = await letterhaus.emails.get(id);
    return { text, arrived: arrived.map(({ filename, size }) => [filename, size]) };
  },
  async stream(letterhaus) {
    const { cursor } = await letterhaus.events.list({ after: 'latest' });
    const { id } = await letterhaus.emails.send(EMAIL);
    const end = new AbortController();
    const types = [];
    for await (const event of letterhaus.events.stream({ after: cursor, signal: end.signal, email_id: id })) {
      types.push(event.type);
      if (event.type === 'email.delivered') end.abort();
    }
    return types;
  },
  list: async (letterhaus) => (await letterhaus.emails.list({ limit: 1 }).page()).data[0].subject,
  fetch: async (letterhaus, { env }) => {
    const own = new Letterhaus({ baseUrl: env.SERVICE, apiKey: env.KEY, fetch });
    return (await own.service.health()).status;
  },
  refusal: (letterhaus) => letterhaus.emails.send({ ...EMAIL, to: 'nobody' }),
  redirect: (letterhaus, { env }) => new Letterhaus({ baseUrl: env.REDIRECT, apiKey: env.KEY }).emails.send(EMAIL),
  late: (letterhaus, { env }) =>
    new Letterhaus({ baseUrl: env.SILENT, apiKey: env.KEY, timeoutMs: 50, maxRetries: 0 }).emails.send(EMAIL),
};

const worker = {
  async fetch(request, env) {
    try {
      const use = new URL(request.url).pathname.slice(1);
      if (use === 'webhook') {
        const payload = await request.arrayBuffer();
        const { headers } = request;
        return Response.json(await verifyWebhook({ payload, headers, secret: env.SECRET }));
      }
      const letterhaus = new Letterhaus({ baseUrl: env.SERVICE, apiKey: env.KEY });
      return Response.json(await USES[use](letterhaus, { env, bytes: new Uint8Array(300) }));
    } catch (error) {
      const { name, message, status } = error;
      return Response.json({ name, message, status }, { status: 500 });
    }
  },
};
export { worker as 'default' };
`;

const service = await sharedService();
const redirecting = await startReceiver();
redirecting.behaviour = { status: 307, headers: { location: service.url } };
const silent = await startReceiver();
silent.behaviour = 'hang';
const SECRET = `whsec_${Buffer.from('a secret of 24 bytes ...').toString('base64')}`;
const workerd = await startWorkerd({
  modules: { 'worker.js': WORKER, ...(await sdkModules()) },
  bindings: {
    SERVICE: service.url,
    KEY: service.testKey,
    REDIRECT: redirecting.url,
    SILENT: silent.url,
    SECRET,
  },
});
after(async () => {
  for (const one of [workerd, redirecting, silent]) await one[Symbol.asyncDispose]();
});

async function sdkModules(): Promise<Record<string, string>> {
  const names = await readdir(SDK);
  const modules = names.map(async (name): Promise<[string, string]> => {
    return [name, stripTypeScriptTypes(await readFile(join(SDK, name), 'utf8'))];
  });
  return Object.fromEntries(await Promise.all(modules));
}

async function use(name: string, init: RequestInit = {}): Promise<unknown> {
  return (await fetch(`${workerd.url}/${name}`, init)).json();
}

test('an email with bytes attached is sent, read and followed by the event stream', async () => {
  const arrived = ['bytes', 'buffer', 'file.png'].map((name) => [name, 300]);
  assert.deepEqual(await use('send'), { text: 'Hello', arrived });
  assert.deepEqual(await use('stream'), ['email.queued', 'email.delivered']);
  assert.equal(await use('list'), 'From a Worker');
});

test('the client accepts the fetch of the runtime', async () => {
  assert.equal(await use('fetch'), 'ok');
});

test('a refusal, a redirect and a timeout result in the same errors as on Node', async () => {
  const errors = [await use('refusal'), await use('redirect'), await use('late')] as Error[];
  assert.deepEqual(
    errors.map(({ name }) => name),
    ['LetterhausError', 'RedirectError', 'ConnectionError'],
  );
  assert.equal(redirecting.received.length, 1);
});

test('a webhook is verified', async () => {
  const body = '{"type":"webhook.test","created_at":"2026-11-21T08:30:00.123Z","data":{}}';
  const now = new Date();
  const headers = {
    'svix-id': 'evt_1',
    'svix-timestamp': String(Math.floor(now.getTime() / 1_000)),
    'svix-signature': new Webhook(SECRET).sign('evt_1', now, body),
  };
  const event = await use('webhook', { method: 'POST', body, headers });
  assert.deepEqual(event, { ...JSON.parse(body), id: 'evt_1' });
  const altered = await use('webhook', { method: 'POST', body: `${body} `, headers });
  assert.equal((altered as Error).name, 'SignatureError');
});
