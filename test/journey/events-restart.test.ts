/** The stream of events over restarts of the whole service, for clients that stream and clients that poll. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openEventStream } from '../support/event-stream.ts';
import { runLoad } from '../support/load.ts';
import {
  waitForArrivals,
  FROM,
  newScene,
  waitForEmptyQueue,
  type Scene,
  to,
} from '../support/scene.ts';
import { waitFor } from '../support/wait.ts';

type Client = { seen: string[]; connections: number };

/** Streams, and goes on from the last id that it got. */
async function stream({ service, key }: Scene, client: Client, over: AbortSignal): Promise<void> {
  let lastEventId = '';
  while (!over.aborted) {
    const open = async () => {
      if (over.aborted) return 'over';
      const opened = await openEventStream(service.url, { key, lastEventId }).catch(() => null);
      return opened?.status === 200 && opened;
    };
    const opened = await waitFor(open, { what: 'a stream to open', timeoutMs: 60_000 });
    if (opened === 'over') return;
    await using events = opened;
    client.connections += 1;
    const before = client.seen.length;
    const look = () => {
      client.seen.splice(before, Infinity, ...events.events.map(({ data }) => data.id as string));
      return events.hasEnded || over.aborted;
    };
    await waitFor(look, { what: 'the stream to end', timeoutMs: 120_000 });
    look();
    lastEventId = events.lastId;
  }
}

/** Asks page by page with the cursor of the one before. */
async function poll({ service, key }: Scene, client: Client, over: AbortSignal): Promise<void> {
  let cursor = '';
  const readPage = async (): Promise<boolean> => {
    const path = `/v1/events?limit=7${cursor && `&after=${cursor}`}`;
    const response = await service.request('GET', path, { key }).catch(() => null);
    if (response?.status === 200) {
      client.seen.push(...response.body.data.map(({ id }: { id: string }) => id));
      client.connections += 1;
      cursor = response.body.cursor;
    }
    return over.aborted;
  };
  await waitFor(readPage, { what: 'the end of the test', timeoutMs: 180_000 });
}

test('clients that resume lose and repeat no event when the service is restarted or killed', async () => {
  await using scene = await newScene({ args: ['--workers', '2'] });
  const { service, key, mx } = scene;
  const over = new AbortController();
  const streaming: Client = { seen: [], connections: 0 };
  const polling: Client = { seen: [], connections: 0 };
  const following = Promise.all([
    stream(scene, streaming, over.signal),
    poll(scene, polling, over.signal),
  ]);
  try {
    const accepted: string[] = [];
    for (const end of ['stop', 'kill', 'stop'] as const) {
      const load = runLoad(service, { key, count: 60, connections: 4, from: FROM, to });
      await waitFor(() => streaming.seen.length > accepted.length, { what: 'events to come' });
      if (end === 'kill') await service.killGroup9();
      await service.restart();
      accepted.push(...(await load).accepted);
    }
    accepted.push(...(await runLoad(service, { key, count: 10, from: FROM, to })).accepted);
    await waitForArrivals(mx, accepted);
    await waitForEmptyQueue(service);
    const rows = await service.sql(`select id from events where environment = 'live' order by id`);
    const expected = rows.map(({ id }) => id as string).toSorted();
    for (const client of [streaming, polling]) {
      await waitFor(() => client.seen.length >= expected.length, {
        what: `${expected.length} events`,
        timeoutMs: 60_000,
      });
      assert.deepEqual(client.seen.toSorted(), expected);
    }
    assert.ok(streaming.connections >= 2, `${streaming.connections} streams`);
  } finally {
    over.abort();
    await following;
  }
});
