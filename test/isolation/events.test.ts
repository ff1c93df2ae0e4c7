/** Tests that projects with the maximum of event streams and polls do not keep another project from its events. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { openEventStream, type StreamReader } from '../support/event-stream.ts';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const PROJECTS = 3;
const KEYS = 10;
const STREAMS_OF_KEY = 10;
/** Milliseconds for an event on a loaded machine. The guarantee is 2 s. */
const SOON_MS = 5_000;

const service = await startService({ env: { LETTERHAUS_LOG: 'warn' } });
after(() => service[Symbol.asyncDispose]());

/** Creates a project and returns its keys. */
async function newProject(name: string): Promise<string[]> {
  const { id } = await service.cliJson('projects', 'create', name);
  const { key } = await service.cliJson('keys', 'create', '--project', id, '--environment', 'test');
  const more = Array.from({ length: KEYS - 1 }, async (_, at) => {
    const body = { name: `reader ${at}`, permission: 'full_access' };
    const response = await service.request('POST', '/v1/api-keys', { key, body });
    assert.equal(response.status, 201, response.text);
    return response.body.key as string;
  });
  return [key, ...(await Promise.all(more))];
}

const poll = async (key: string): Promise<number> =>
  (await service.request('GET', '/v1/events?limit=100', { key })).status;

test('three projects with all streams that they may have leave streams and pages to a fourth', async (t) => {
  const open: StreamReader[] = [];
  t.after(() => Promise.all(open.map((stream) => stream[Symbol.asyncDispose]())));
  const keys: string[] = [];
  for (let project = 0; project < PROJECTS; project += 1) {
    keys.push(...(await newProject(`large${project}`)));
  }
  for (const key of keys) {
    const streams = Array.from({ length: STREAMS_OF_KEY }, () =>
      openEventStream(service.url, { key }),
    );
    open.push(...(await Promise.all(streams)));
  }
  const refused = open.filter(({ status }) => status === 503);
  assert.ok(refused.length > 0, 'the shared streams are used up');

  const end = new AbortController();
  const polling = keys.map(async (key) => {
    while (!end.signal.aborted) await poll(key);
  });
  t.after(() => {
    end.abort();
    return Promise.all(polling);
  });
  const mine = await openEventStream(service.url, { key: service.testKey });
  open.push(mine);
  assert.equal(mine.status, 200);
  const id = await service.send({ from: 'us@acme.test', to: 'delivered@simulator.test' });
  await waitFor(() => mine.events.some(({ data }) => data.data.email_id === id), {
    what: 'the event on the stream',
    timeoutMs: SOON_MS,
  });
  const startedMs = performance.now();
  assert.equal(await poll(service.testKey), 200);
  const tookMs = Math.round(performance.now() - startedMs);
  t.diagnostic(`a poll: ${tookMs} ms`);
  assert.ok(tookMs < SOON_MS, `${tookMs} ms`);
});
