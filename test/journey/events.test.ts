/**
 * The stream of events through the death of workers, and `letterhaus webhooks listen`, which brings real
 * events to a developer's machine: every event of the service arrives, each once.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { openEventStream } from '../support/event-stream.ts';
import { runLoad } from '../support/load.ts';
import { cleanEnv, LAUNCHER } from '../support/letterhaus.ts';
import {
  waitForArrivals,
  FROM,
  newScene,
  waitForEmptyQueue,
  type Scene,
  to,
} from '../support/scene.ts';
import { waitFor } from '../support/wait.ts';
import { startReceiver, verified } from '../support/webhook-receiver.ts';

const eventIds = async ({ service }: Scene): Promise<string[]> =>
  (await service.sql(`select id from events where environment = 'live' order by id`)).map(
    ({ id }) => id as string,
  );

/** Kills each worker in turn while mail is accepted and delivered, and waits for all of it. */
async function loadWithKills(scene: Scene): Promise<void> {
  const { service, mx, key } = scene;
  const accepted: string[] = [];
  const load = async () =>
    accepted.push(...(await runLoad(service, { key, count: 30, from: FROM, to })).accepted);
  await load();
  for (const pid of await service.workerPids()) {
    process.kill(pid, 'SIGKILL');
    await load();
    await waitFor(async () => (await service.workerPids()).length === 2, {
      what: 'another worker in place of the killed one',
    });
  }
  await load();
  await waitForArrivals(mx, accepted);
  await waitForEmptyQueue(service);
}

test('when workers are killed during a stream, a client that resumes gets every event once', async () => {
  await using scene = await newScene({ args: ['--workers', '2'] });
  const { service, key } = scene;
  const seen: string[] = [];
  let lastEventId = '';
  const enough = new AbortController();
  let streams = 0;
  const connect = () => openEventStream(service.url, { key, lastEventId }).catch(() => null);
  const follow = async (): Promise<void> => {
    while (!enough.signal.aborted) {
      const open = async () => {
        const stream = await connect();
        return stream?.status === 200 && stream;
      };
      await using stream = await waitFor(open, { what: 'a stream to open' });
      streams += 1;
      const before = seen.length;
      const look = () => {
        seen.splice(before, Infinity, ...stream.events.map(({ data }) => data.id as string));
        return stream.hasEnded || enough.signal.aborted;
      };
      await waitFor(look, { what: 'the stream to end', timeoutMs: 120_000 });
      look();
      lastEventId = stream.lastId;
    }
  };
  const following = follow();
  await loadWithKills(scene);
  const expected = await eventIds(scene);
  await waitFor(() => seen.length >= expected.length, { what: `${expected.length} events` });
  enough.abort();
  await following;
  assert.deepEqual(seen.toSorted(), expected.toSorted());
  assert.ok(streams >= 2, 'a worker was killed under the stream');
});

/** The command as a developer runs it, on a machine that has nothing but a key. */
function listen(scene: Scene, ...args: string[]) {
  const env = cleanEnv({ LETTERHAUS_API_KEY: scene.key, LETTERHAUS_URL: scene.service.url });
  const child = spawn(
    process.execPath,
    [LAUNCHER, 'webhooks', 'listen', '--json', '--forward-to', ...args],
    { env, stdio: ['ignore', 'pipe', 'pipe'] },
  );
  // Its output is complete then, unlike at its exit.
  const ended = once(child, 'close');
  const said = { out: '', err: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (said.out += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said.err += text));
  return {
    said,
    /** Those that are whole: a chunk may end within one. */
    lines: () =>
      said.out
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line)),
    stop: async (): Promise<unknown> => {
      child.kill('SIGINT');
      return (await ended)[0];
    },
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

test('webhooks listen delivers every event, signed, also after an interruption', async () => {
  await using scene = await newScene({ args: ['--workers', '2'] });
  await using receiver = await startReceiver(503);
  const { service, key } = scene;
  const { body } = await service.request('GET', '/v1/events?after=latest', { key });
  await using command = listen(scene, `${receiver.url}/hooks`, '--after', body.cursor);
  await service.send({ from: FROM, to: to(0) }, { key });
  await waitFor(() => command.lines().some(({ status }) => status === 503), {
    what: 'an attempt that is refused',
  });
  receiver.behaviour = 204;
  await loadWithKills(scene);
  const expected = await service.sql(
    `select id from events where environment = 'live' and type like 'email.%'`,
  );
  const taken = () => command.lines().filter(({ status }) => status === 204);
  await waitFor(() => taken().length >= expected.length, {
    what: `${expected.length} events to be forwarded`,
    timeoutMs: 60_000,
  });
  assert.deepEqual(
    taken()
      .map(({ id }): string => id)
      .toSorted(),
    expected.map(({ id }): string => id).toSorted(),
  );
  const secret = command.lines()[0].signing_secret;
  for (const received of receiver.received) verified(secret, received);
  assert.equal(await command.stop(), 0);
  assert.match(command.said.err, /Continue with --after \S{80,}/);
});
